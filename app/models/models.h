/* app/models/models.h - finds the model files on this machine, and opens the model that the options name. */
#ifndef WEIR_MODELS_H
#define WEIR_MODELS_H

#include "app/options/options.h"
#include "app/term/term.h"
#include "engine/encoder.h"

/* ---- model files (model_files.c) ---- */

/* A model file. `name` is the file's name without .gguf, or Ollama's name ("llama3:8b"). `from` is the program that
 * downloaded the file. `when` is its modification time, in seconds since 1970. */
struct model_file {
	char *name, *path;
	uint64_t bytes;
	const char *from;
	int64_t when;
};
/* List the model files on this machine, weir's own first. Free the list with model_files_free(). */
size_t model_files(struct model_file **out);
/* List weir's own text encoders. Files of readers (networks that read question and passage, named NAME-reader.gguf and
 * NAME-reader-en.gguf) are not listed. Free the list with model_files_free(). */
size_t encoder_files(struct model_file **out);
void model_files_free(struct model_file *, size_t n);
/* Append the path of the newest model among those that weir has downloaded. Returns 1; 0 if there is none. */
int model_newest(struct str *out);
/* Find a model by its path, its name or the beginning of its name, and append its path. Returns 0, or -1 with ERR_MODEL
 * if no model or several models match. */
int model_find(const char *name, struct str *out, struct err *);
/* Find a text encoder as model_find() finds a model: first among weir's own encoders, then among the models. */
int encoder_find(const char *name, struct str *out, struct err *);

/* ---- models to choose from (known_models.c) ---- */

struct known_model {
	const char *name, *repo, *file;
	uint64_t bytes;
	const char *what;
	int encoder; /* 1 = a text encoder instead of a chat model */
	int step;    /* 1 = this model is suggested as a larger one if it fits into memory */
};
/* models by size, followed by encoders by size; ends with name = NULL */
extern const struct known_model known_models[];
/* Find a model of the table by its name or the beginning of its name. Returns NULL with *e set if none or several
 * match. */
const struct known_model *known_model(const char *name, struct err *e);
/* Return the row of the table for the model file FILE.gguf; NULL if there is none. The parameter `file` is FILE, the
 * name without .gguf. */
const struct known_model *known_model_of(const char *file);
/* Return the entry of file[0 .. n) that is the file of model k; NULL if there is none. */
const struct model_file *known_model_file(const struct known_model *k, const struct model_file *file, size_t n);
/* Append the models of the table, one per line. If `encoders` is 1, append the encoders instead of the models. If
 * `here` is 1, leave out models whose file is on this machine. If `numbered` is 1, number the lines from 1. */
void known_models_show(struct str *out, int encoders, int here, int numbered);
/* Return what models of this size and kind are good for, as the rest of a sentence that begins "Good for". */
const char *model_good_for(const struct engine_info *);
/* Append which models of the table are larger than the open model and fit into memory: into the GPU's memory, or
 * without a GPU into `free_memory` bytes. The text is a headline and two lines, for the smallest and the largest of
 * those models that have `step` set. Appends nothing if there is no such model. */
void known_models_larger(const struct engine_info *now, uint64_t free_memory, struct str *out);

/* ---- checks of GPUs (gpu_checks.c) ---- */

/* Return where results of GPU checks are stored. A private conversation reads stored results and writes none. Returns
 * NULL if the environment variable WEIR_GPU_CHECK is "off": GPUs are then used unchecked. */
const struct gpu_checks *gpu_checks_for(const struct options *);
/* part of a sentence that `weir doctor` prints; remove it once tests/cuda/gpu-results.md has the results of a real
 * GPU */
#define GPU_UNPROVEN  "weir has not yet run on a real GPU"

/* ---- the model (open_model.c) ---- */

#define DEFAULT_MODEL "SmolLM2-135M-Instruct.Q4_1.gguf"
/* Append the path of the model to use: the model that the options name (-m, WEIR_MODEL, config file), else
 * DEFAULT_MODEL, else the newest model that weir has downloaded. Returns 0, or -1 with ERR_MODEL if there is none. */
int model_path(const struct options *, struct str *out, struct err *);
#define DEFAULT_ENCODER "e5-small.gguf"
/* Append the path of the text encoder that --encoder names; a text encoder is a model that turns passages into vectors.
 * "auto" means DEFAULT_ENCODER, if it was downloaded. Returns 1 if found; 0 if there is none or --encoder is "off"; -1
 * on error. */
int encoder_path(const struct options *, struct str *out, struct err *);
/* Open the encoder that encoder_path() finds. Its file is first parsed in a sandboxed process. Returns 1 if open; 0 if
 * there is none; -1 on error. */
int encoder_open_for(struct encoder **, const struct options *, struct err *);
/* Return the address of the server that runs the model, or NULL if the options name no server. */
const char *model_server(const struct options *);
/* How much of the model file is loaded. MODEL_RUN: all of it; MODEL_LOOK: all except the weights; MODEL_VOCAB: only the
 * vocabulary. */
enum model_use { MODEL_RUN, MODEL_LOOK, MODEL_VOCAB };
/* Callback that parses a model file in a sandboxed process before model_open() opens it. Returns -1 if the file
 * must not be opened. NULL: no check. */
extern int (*model_precheck)(const char *path, const struct options *, struct err *);
int model_open(struct engine **, const struct options *, enum model_use, struct err *);
int timeline_open_for(struct timeline **, struct engine *, const struct options *, int32_t ctx, struct err *);

#endif
