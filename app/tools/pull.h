/* app/tools/pull.h - private to app/tools/pull*.c: fetching a model.
 *
 *     pull_table.c   models to choose from
 *     pull_hub.c     what a repository holds, by the interface of huggingface.co
 *     pull_choose.c  its models, and the one to take
 *     pull_fit.c     what a model will need here, by its header alone
 *     pull_file.c    one file: fetched, continued, checked
 *     pull.c         weir pull: all of it, and what is said on the way */
#ifndef WEIR_PULL_H
#define WEIR_PULL_H

#include "app/tools/tools.h"
#include "sessions/fetch/fetch.h"

struct sum;

/* ---- pull_table.c ---- */

struct known_model {
	const char *name, *repo, *file;
	uint64_t bytes;
	const char *what;
};
extern const struct known_model known_models[]; /* by size; ends with name = NULL */
/* By its name or the beginning of its name.  NULL: there is none, or several; *e says so. */
const struct known_model *known_model(const char *name, struct err *e);
/* The one whose file is called so, without .gguf; or NULL. */
const struct known_model *known_model_of(const char *file);
/* As a table, one line each.  here: leave out those whose file is here; numbered: with numbers from 1 on. */
void known_models_show(struct str *out, int here, int numbered);

/* ---- pull_hub.c ---- */

struct hub_file {
	char *path;
	uint64_t bytes;
	char sum[65];
}; /* sum: SHA-256 in base 16 */
struct hub_repo {
	char *name, *address, *token; /* token: NULL = none */
	char *revision;               /* branch, tag or commit that was asked for, as it stands in an address */
	/* what that is now: all files are of this one, whatever is uploaded meanwhile */
	char commit[41];
	struct hub_file *file;
	size_t n;
};
/* The GGUF files of a repository "ORG/NAME".  revision NULL: the newest. */
int hub_open(struct hub_repo *, const char *name, const char *revision, struct err *);
void hub_free(struct hub_repo *);
/* Where a file of it is fetched. */
void hub_file_address(const struct hub_repo *, const struct hub_file *, struct str *out);
/* Set *e for an answer of this status, and return -1.  what: the file, or NULL for the repository. */
int hub_refused(const struct hub_repo *, const char *what, const struct http_reply *, struct err *e);
/* Wait where it may help: after a failure without progress, the tries-th in a row. 0: try again; -1: it does not help,
 * or it was stopped (*e is set then). */
int hub_wait(const struct http_reply *, int tries, struct err *);

/* ---- pull_choose.c ---- */

enum { PARTS_MOST = 99 };
struct hub_model {
	char *name;     /* the file without folder, part and .gguf */
	char quant[24]; /* "Q4_K_M"; "" where the name does not say */
	const struct hub_file *part[PARTS_MOST];
	int n; /* files; parts that are missing make it no model */
	uint64_t bytes;
};
/* The models that the files of a repository make.  Returns their number; hub_models_free(). */
size_t hub_models(const struct hub_repo *, struct hub_model **out);
void hub_models_free(struct hub_model *, size_t n);
/* The one that is called so, by quantization or file name; wanted NULL: Q4_K_M, or the best that fits into `memory`
 * bytes. */
const struct hub_model *hub_choose(const struct hub_repo *, const struct hub_model *, size_t n, const char *wanted,
                                   uint64_t memory, struct err *);

/* ---- pull_file.c ---- */

struct fetched {
	const struct hub_repo *repo;
	const struct hub_file *file;
	char *path, *part; /* where it will be, and where it grows */
	int fd;
	int whole;         /* it is there already, with the right sum */
	uint64_t at, head; /* bytes that are here; those before the weights, 0 = not known yet */
	struct sum *sum;   /* of them */
	struct progress *progress;
	uint64_t before, all; /* bytes of the files before this one, and of all */
	uint64_t limit;       /* where the next transfer ends */
	double started;
	uint64_t from;
	int restarts;
	int said_restart;
};
/* Take up what an earlier run has left.  -1: another process is fetching it, or another file has its name. */
int fetched_open(struct fetched *, const struct hub_repo *, const struct hub_file *, const char *folder,
                 struct progress *, struct err *);
/* Until all that comes before the weights is here. */
int fetched_head(struct fetched *, struct err *);
/* All of it, and check the sum. */
int fetched_rest(struct fetched *, struct err *);
/* Give it its name. */
int fetched_name(struct fetched *, struct err *);
void fetched_close(struct fetched *);

/* ---- pull_fit.c ---- */

struct fit {
	char family[32], quant[16], template_name[32];
	uint64_t weights, cache, memory; /* memory: free now */
	int32_t ctx, trained;
	double tps; /* tokens a second, 0 = not known */
	int fits, has_template;
};
/* By the headers of its files.  -1: weir cannot run it. */
int fit_find(const struct options *, const struct fetched *, int n, const char *folder, struct fit *, struct err *);

#endif
