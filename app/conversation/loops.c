/* app/conversation/loops.c - notices that an answer repeats itself (conversation_private.h).
 *
 * The last tokens are a loop of period p when each equals the one p before it, for LEAST tokens and TURNS rounds. A
 * table, a list or a row of numbers repeats less: what is new in each row breaks the run. */
#include "app/conversation/conversation_private.h"

enum { LEAST = 96, TURNS = 4 };

int loop_add(struct loop_watch *w, int32_t id)
{
	int loop = 0;

	for (int p = 1; p <= LOOP_PERIOD; p++) {
		w->run[p] = w->n >= p && w->id[(w->n - p) % LOOP_PERIOD] == id ? w->run[p] + 1 : 0;
		if (!loop && w->run[p] >= LEAST && w->run[p] >= TURNS * p)
			loop = p;
	}
	w->id[w->n++ % LOOP_PERIOD] = id;
	return loop;
}
