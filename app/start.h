/* app/start.h - what the programs weir and weir-lab do before their commands. */
#ifndef WEIR_START_H
#define WEIR_START_H

#include "app/options/options.h"

/* Run a program: descriptors, locale, signals, options, --version, then `run`; returns the exit code. o: filled.
 * more: rows of the program's own options, or NULL (options_parse_more). help: appends what --help prints. run:
 * runs the command and returns the exit code. */
int program_run(int argc, char **argv, struct options *o, const struct option_def *more,
                void (*help)(const struct options *, struct str *out), int (*run)(struct options *));

#endif
