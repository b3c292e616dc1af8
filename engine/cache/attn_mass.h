/* engine/cache/attn_mass.h (private to engine/) - attention mass: what attention has given to each KV entry of a
 * bounded stream, summed on the backend.
 *
 * The sums lie in planes, f32 [heads][slots of the rings and their stage]. A step reads the plane that counts and
 * writes another one for each of its tokens (READ: one for all), which counts once the step is committed: a step that
 * is rolled back spoils nothing. Up to MASS_POINTS planes of before are kept, so that committed tokens can be rolled
 * back, too.
 *
 * The host's sums are those of the rings (rings.h). They get the few that tokens which join are compared with, and all
 * of them when a view or a snapshot is taken; so a step waits for none of them. */
#ifndef WEIR_ATTN_MASS_H
#define WEIR_ATTN_MASS_H

#include "engine/cache/cache.h"
#include "engine/cache/rings.h"

enum { MASS_FEW = 3 * 16 + 3 * RINGS_MOST }; /* slots that a group of 16 joining tokens is compared with, at most */
enum { MASS_POINTS = 3, MASS_PLANES = 1 + MASS_POINTS + VERIFY_MOST };

struct serializer;
struct mass_point {
	int32_t t; /* the sums after so many tokens; -1 = there is no such point */
	int32_t plane;
	struct ema ema;
	float nll; /* of the last of these tokens */
};
struct attn_mass {
	struct backend *be; /* NULL: nothing is summed */
	struct rings *rings;
	struct tensor plane[MASS_PLANES];
	int32_t n_plane, cap;      /* planes allocated; the slots that each has room for */
	int32_t now;               /* the plane that counts */
	int32_t next[VERIFY_MOST]; /* planes that the step that runs writes: sums after its first token, ... */
	struct mass_point point[MASS_POINTS];
	int plane_stale;    /* the host's sums are newer than plane[now] */
	int sum_stale;      /* plane[now] is newer than the host's sums */
	float *swap;        /* [heads][slots]: on their way between host and backend */
	struct tensor few;  /* f32 [MASS_FEW][heads]: those that are compared */
	struct tensor move; /* i32 [heads][3 * MASS_FEW] */
	int32_t *list;      /* the same */
};

/* For rings of at most so many slots. */
uint64_t mass_bytes(int32_t heads, uint64_t slots);
int mass_init(struct attn_mass *, struct backend *, struct rings *, struct err *);
void mass_release(struct attn_mass *);
/* The rings were reset, or the host's sums changed: these count from now on.  Forgets all points. */
void mass_reset(struct attn_mass *);

/* A step follows, of tokens pos .. pos + n: weight[n] = what each counts. planes: how many the step writes, 1 or
 * (VERIFY) n. -1: the step fails, because it is cancelled, the backend failed before, or there is no memory. */
int mass_begin(struct attn_mass *, int32_t pos, int32_t n, int32_t planes, float *weight);
/* The planes that token `index` of the step reads and writes. */
struct tensor *mass_from(struct attn_mass *, int32_t index);
struct tensor *mass_to(struct attn_mass *, int32_t index);
/* The first `planes` that the step wrote stay. */
void mass_commit(struct attn_mass *, int32_t planes);
/* Before rings_insert() of n tokens: bring the sums it compares to the host. After it: move the backend's sums as the
 * rings did. */
void mass_join(struct attn_mass *, int32_t n);
void mass_follow(struct attn_mass *);
/* Scale the sums if the weights of tokens pos .. pos + n need room; between steps, because a step would have to wait. 0
 * or -1. */
int mass_scale(struct attn_mass *, int32_t pos, int32_t n);
/* Would that scale? */
int mass_must_scale(const struct attn_mass *, int32_t pos, int32_t n);

/* Remember the sums as they are, after t tokens, as point i; a step that is being cancelled leaves no point. */
void mass_keep(struct attn_mass *, int i, int32_t t, float nll);
/* The same of the sums after token `index` of the step that was committed just now. */
void mass_keep_inner(struct attn_mass *, int i, int32_t t, float nll, int32_t index);
/* Point i: its sums count again. */
void mass_restore(struct attn_mass *, int i);
/* Forget the points after more than t tokens. */
void mass_forget(struct attn_mass *, int32_t t);

/* All sums to the host: 0, or -1 where they did not come (the backend's failure tells why). */
int mass_read(struct attn_mass *);
/* The points, of which point i has so many slots (none when it is not valid); loading: into planes that are free. */
void mass_points_archive(struct attn_mass *, struct serializer *, const int32_t slots[MASS_POINTS]);
/* The sums of the first slots, all others being 0. */
void mass_archive(struct attn_mass *, struct serializer *, int32_t slots);

#endif
