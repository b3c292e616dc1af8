/* app/lab/main.c - the program weir-lab, which weir starts for the commands eval and train. */
#include "app/lab/lab.h"
#include "app/start.h"
#include "app/term/term.h"

#include <string.h>

static void help(const struct options *o, struct str *out)
{
	if (o->help_kv || o->command & CMD_LAB)
		options_help(o, NULL, out);
	else
		options_help_commands(CMD_LAB, out);
}

static int run(struct options *o)
{
	/* allowed, because o points to the first member of struct lab_options */
	struct lab_options *l = (struct lab_options *)o;
	struct err e = { 0 };

	if (!l->samples)
		l->samples = o->command == CMD_EVAL_NEEDLE ? 1 : o->command == CMD_EVAL_PREDICTOR ? 5 : 20;
	switch (o->command) {
	case CMD_EVAL_PPL: return cmd_eval_ppl(o);
	case CMD_EVAL_ASK: return cmd_eval_ask(o);
	case CMD_EVAL_PREDICTOR: return cmd_eval_predictor(o);
	case CMD_EVAL_PLOT: return cmd_eval_plot(o);
	case CMD_EVAL_TUNE: return cmd_eval_tune(o);
	case CMD_EVAL_RECOVERY: return cmd_eval_recovery(o);
	case CMD_EVAL_RULER:
	case CMD_EVAL_PASSKEY:
	case CMD_EVAL_CHAIN:
	case CMD_EVAL_ANSWERS:
	case CMD_EVAL_NEEDLE: return cmd_eval_tasks(o);
	case CMD_TRAIN: return cmd_train(o);
	}
	err_set(&e, ERR_USAGE,
	        "weir-lab runs 'eval' and 'train' alone (weir-lab --help lists them); all else is run by weir");
	return fail(&e);
}

#ifdef WEIR_STATIC
#define main lab_main /* in a static build, app/main.c calls this main() by another name */
#endif
int main(int argc, char **argv)
{
	struct lab_options l = lab_options_default;

	if (argc > 1 && !strcmp(argv[1], "__complete"))
		return completion_answer(lab_option_defs, NULL, argc - 2, argv + 2);
	return program_run(argc, argv, &l.o, lab_option_defs, help, run);
}
