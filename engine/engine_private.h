/* engine/engine_private.h (private to engine/) - struct engine. */
#ifndef WEIR_ENGINE_PRIVATE_H
#define WEIR_ENGINE_PRIVATE_H

#include <pthread.h>
#include "engine/template/chat.h"
#include "engine/engine.h"
#include "engine/model/weights.h"
#include "engine/token/token.h"

struct engine {
	struct gguf *gguf;
	struct vocab *vocab;
	struct chat_template *chat; /* NULL = there is no template, or it is unusable (info.template_error) */
	struct backend *be;         /* NULL = the engine was opened with vocab_only or inspect_only */
	int plan_only;              /* 1: `be` is open, but the weights are not loaded */
	struct model model;
	struct engine_info info;
	/* [0] has the settings for answers without reasoning, [1] those for answers with reasoning */
	struct sampling_choice sampling[2];
	/* strings that the engine owns; info.name and info.n_types point to them */
	char *name, *types;
	/* locked while the backend computes: timelines of several threads take turns */
	pthread_mutex_t lock;
};

/* Check that a backend's results agree with the CPU's. Return 0 if they agree, or if `checks` is NULL. Otherwise return
 * -1 and write the reason to `why`; the backend may then be unusable. If `again` is 0, use the stored result of an
 * earlier check, if there is one. If `again` is 1, check now. (gpu.c) */
int gpu_check(struct backend *, const struct gpu_checks *checks, int again, char why[160]);
/* Set sampling[] and info.sampling_note from the model file and info.arch (advice.c). */
void sampling_read(struct engine *);

#endif
