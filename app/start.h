/* app/start.h - startup code that the programs weir and weir-lab share. */
#ifndef WEIR_START_H
#define WEIR_START_H

#include "app/options/options.h"

/* Prepare the process (descriptors, locale, signals), parse the options into *o, then call `run`, which runs the
 * command. `run` is not called for --help and --version. `more` lists the options that only this program has (see
 * options_parse_more()), or is NULL. `help` appends the text of --help. Returns the exit code. */
int program_run(int argc, char **argv, struct options *o, const struct option_def *more,
                void (*help)(const struct options *, struct str *out), int (*run)(struct options *));

/* The main() of weir-lab. It has another name in a static build (WEIR_STATIC), where weir and weir-lab are one file. */
int lab_main(int argc, char **argv);

#endif
