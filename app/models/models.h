/* app/models/models.h - the model files on this machine, and opening the model that the options name. */
#ifndef WEIR_MODELS_H
#define WEIR_MODELS_H

#include "app/options/options.h"
#include "app/term/term.h"

/* ---- model files (model_files.c) ---- */

/* A model file: its name without .gguf, or as Ollama calls it ("llama3:8b"); which program fetched it. */
/* when: it was fetched, in seconds since 1970 */
struct model_file {
	char *name, *path;
	uint64_t bytes;
	const char *from;
	int64_t when;
};
/* All that are on this machine, weir's own first; model_files_free() frees the list. */
size_t model_files(struct model_file **out);
void model_files_free(struct model_file *, size_t n);
/* Of weir's own the one that was fetched last: its path appended.  0: there is none. */
int model_newest(struct str *out);
/* The path of a file or of a model by its name or the beginning of its name, appended; ERR_MODEL where there is none,
 * or several. */
int model_find(const char *name, struct str *out, struct err *);

/* ---- the model (open_model.c) ---- */

#define DEFAULT_MODEL "SmolLM2-135M-Instruct.Q4_1.gguf"
/* Find the model: the one of the options (-m, WEIR_MODEL, config), else the default one, else the newest of weir's own.
 * ERR_MODEL when there is none. */
int model_path(const struct options *, struct str *out, struct err *);
/* The address of the server that the options name in place of a model, or NULL. */
const char *model_server(const struct options *);
enum model_use { MODEL_RUN, MODEL_LOOK, MODEL_VOCAB }; /* all; all but the weights, checked; the vocabulary alone */
/* Reads a model file before this process does, where it does no harm; -1: it must not be opened. The program sets it;
 * NULL: nobody does. */
extern int (*model_first_reader)(const char *path, const struct options *, struct err *);
int model_open(struct engine **, const struct options *, enum model_use, struct err *);
int timeline_open_for(struct timeline **, struct engine *, const struct options *, int32_t ctx, struct err *);

#endif
