/* app/tools/pull.h - declarations shared by app/tools/pull*.c: fetching a model.
 *
 *     pull_hub.c:    the files of a repository, by the interface of huggingface.co;
 *     pull_choose.c: which files make a model, and which model to take;
 *     pull_fit.c:    what a model needs on this machine, from its header alone;
 *     pull_file.c:   fetching one file, resuming, checking;
 *     pull.c:        weir pull: the sequence of steps, questions and messages. */
#ifndef WEIR_PULL_H
#define WEIR_PULL_H

#include "app/models/models.h"
#include "app/tools/tools.h"
#include "engine/encoder.h"
#include "sessions/fetch/fetch.h"

struct sum;

/* ---- pull_hub.c ---- */

/* A file of a repository. `sum` is its SHA-256 in hexadecimal. */
struct hub_file {
	char *path;
	uint64_t bytes;
	char sum[65];
};
struct hub_repo {
	/* `name` is "ORG/NAME"; `address` is the address of the server; `token` is the access token, NULL = none */
	char *name, *address, *token;
	char *revision; /* branch, tag or commit that the user named, escaped for use in a URL */
	/* the commit to which the revision refers; all files are fetched from this commit, even if newer files are
	 * uploaded meanwhile */
	char commit[41];
	struct hub_file *file;
	size_t n;
};
/* List the GGUF files of a repository "ORG/NAME". `revision` is a branch, tag or commit; NULL = the newest commit. */
int hub_open(struct hub_repo *, const char *name, const char *revision, struct err *);
void hub_free(struct hub_repo *);
/* Append the address of a file. */
void hub_file_address(const struct hub_repo *, const struct hub_file *, struct str *out);
/* Set *e to a message about a reply with an error status. `what` is the file that was requested; NULL = the list of
 * files. Always returns -1. */
int hub_refused(const struct hub_repo *, const char *what, const struct http_reply *, struct err *e);
/* Wait before the next try. `tries` is the number of failures since the last progress. Returns 0 to try again; -1 with
 * *e set if another try cannot help, or if the user has stopped. */
int hub_wait(const struct http_reply *, int tries, struct err *);

/* ---- pull_choose.c ---- */

enum { PARTS_MOST = 99 };
struct hub_model {
	char *name;     /* name of the model: the file name without folder, part number and .gguf */
	char quant[24]; /* quantization, such as "Q4_K_M"; "" if the name of the file has none */
	const struct hub_file *part[PARTS_MOST];
	int n; /* number of the model's files (parts) */
	uint64_t bytes;
};
/* List the complete models of a repository; a model may have several files. Returns their number. Free the list with
 * hub_models_free(). */
size_t hub_models(const struct hub_repo *, struct hub_model **out);
void hub_models_free(struct hub_model *, size_t n);
/* Find the model with the quantization or file name `wanted`. If `wanted` is NULL, take the first quantization, in an
 * order of preference from Q4_K_M on, whose model fits into `memory` bytes. Returns NULL with *e set if there is
 * none. */
const struct hub_model *hub_choose(const struct hub_repo *, const struct hub_model *, size_t n, const char *wanted,
                                   uint64_t memory, struct err *);

/* ---- pull_file.c ---- */

struct fetched {
	const struct hub_repo *repo;
	const struct hub_file *file;
	char *path, *part; /* path of the complete file, and path of the partial file */
	int fd;
	int whole; /* 1 = the complete file is there, with the right checksum */
	/* `at` is the number of bytes on disk; `head` is the number of bytes before the weights, 0 = unknown */
	uint64_t at, head;
	struct sum *sum; /* checksum of the bytes on disk */
	struct progress *progress;
	/* number of bytes of the model's files before this one; number of bytes of all its files */
	uint64_t before, all;
	uint64_t limit; /* byte at which the next transfer ends */
	double started; /* time at which the transfer began */
	uint64_t from;  /* number of bytes on disk when the transfer began (value of `at`) */
	int restarts;
	int said_restart;
};
/* Open a file for fetching, and find the bytes that an earlier run has fetched. Returns 0; -1 if another process is
 * fetching the file, or if a different file already has the final name. */
int fetched_open(struct fetched *, const struct hub_repo *, const struct hub_file *, const char *folder,
                 struct progress *, struct err *);
/* Fetch all bytes before the weights. */
int fetched_head(struct fetched *, struct err *);
/* Fetch the rest of the file and check its checksum. */
int fetched_rest(struct fetched *, struct err *);
/* Rename the complete partial file to its final name. */
int fetched_name(struct fetched *, struct err *);
void fetched_close(struct fetched *);

/* ---- pull_fit.c ---- */

struct fit {
	char family[32], quant[16], template_name[32];
	uint64_t weights, cache, memory; /* sizes in bytes; `memory` is the machine's free memory */
	int32_t ctx, trained;
	double tps; /* estimated speed in tokens per second; 0 = unknown */
	int fits, has_template;
	/* 1 = the model is a text encoder or reranker; of the members after `memory`, only `fits` and `encoder` are
	 * then used */
	int encodes;
	struct encoder_look encoder;
};
/* Find what a model needs, from the headers of its n files. Returns 0, or -1 if weir cannot run the model. */
int fit_find(const struct options *, const struct fetched *, int n, const char *folder, struct fit *, struct err *);

#endif
