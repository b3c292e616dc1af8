/* app/start.h - startup code that the programs weir and weir-lab share. */
#ifndef WEIR_START_H
#define WEIR_START_H

#include "app/options/options.h"

/* Prepare the process (descriptors, locale, signals), parse the options into *o, then call `run`, which runs the
 * command. `run` is not called for --help and --version. more: options that only this program has, as for
 * options_parse_more(); NULL = none. help: appends the text of --help. Returns the exit code. */
int program_run(int argc, char **argv, struct options *o, const struct option_def *more,
                void (*help)(const struct options *, struct str *out), int (*run)(struct options *));

/* The main() of weir-lab where WEIR_STATIC makes weir and weir-lab one file. */
int lab_main(int argc, char **argv);

#endif
