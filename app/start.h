/* app/start.h - what the programs weir and weir-lab do before their commands. */
#ifndef WEIR_START_H
#define WEIR_START_H

#include "app/options/options.h"

/* Do all of a program but its commands: descriptors, locale, signals, options, --version; returns the exit code.
 * help: appends what --help prints.  run: runs the command and returns the exit code. */
int program_run(int argc, char **argv, void (*help)(const struct options *, struct str *out),
                int (*run)(struct options *));

#endif
