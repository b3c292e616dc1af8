/* app/conversation/loops.c - detects an answer that repeats itself (conversation_private.h).
 *
 * The end of an answer is a loop of period p if each of its tokens equals the token p positions before. The answer is
 * stopped when the loop has at least LEAST tokens and at least TURNS periods. Tables and lists do not count as loops,
 * because each row has new words. */
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
