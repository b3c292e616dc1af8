/* app/models/models.h - the model files on this machine, and opening the model that the options name. */
#ifndef WEIR_MODELS_H
#define WEIR_MODELS_H

#include "app/options/options.h"
#include "app/term/term.h"
#include "engine/encoder.h"

/* ---- model files (model_files.c) ---- */

/* A model file. name: without .gguf, or Ollama's name ("llama3:8b"); from: the program that fetched it; when:
 * seconds since 1970. */
struct model_file {
	char *name, *path;
	uint64_t bytes;
	const char *from;
	int64_t when;
};
/* List the model files on this machine, weir's own first. Free the list with model_files_free(). */
size_t model_files(struct model_file **out);
void model_files_free(struct model_file *, size_t n);
/* Append the path of the newest of weir's own model files. 0: there is none. */
int model_newest(struct str *out);
/* Append the path of a file, or of the model with this name or beginning of a name. ERR_MODEL: none, or several. */
int model_find(const char *name, struct str *out, struct err *);

/* ---- the model (open_model.c) ---- */

#define DEFAULT_MODEL "SmolLM2-135M-Instruct.Q4_1.gguf"
/* Append the path of the model: the one of the options (-m, WEIR_MODEL, config), else the default model, else the
 * newest of weir's own. ERR_MODEL: none. */
int model_path(const struct options *, struct str *out, struct err *);
#define DEFAULT_ENCODER "e5-small-q4_0.gguf"
/* Append the path of the text encoder that the option `encoder` names: "auto" is DEFAULT_ENCODER in the folder
 * `encoders` of weir's cache, if it is there. 1; 0 = none, or "off"; -1 = error. */
int encoder_path(const struct options *, struct str *out, struct err *);
/* Open that encoder, after the jail has read its file. 1 = open; 0 = there is none; -1 = error. */
int encoder_open_for(struct encoder **, const struct options *, struct err *);
/* The address of the server that the options name in place of a model, or NULL. */
const char *model_server(const struct options *);
enum model_use {
	MODEL_RUN,
	MODEL_LOOK,
	MODEL_VOCAB
}; /* everything; everything but the weights, checked; the vocabulary alone */
/* The function that reads a model file in the jail before this process reads it. -1: the file must not be opened.
 * Set by the program; NULL: the file is not read first. */
extern int (*model_first_reader)(const char *path, const struct options *, struct err *);
int model_open(struct engine **, const struct options *, enum model_use, struct err *);
int timeline_open_for(struct timeline **, struct engine *, const struct options *, int32_t ctx, struct err *);

#endif
