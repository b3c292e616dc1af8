/* app/panel.h (private to app/) - what the cache panel shows, gathered in the thread that owns the timeline. */
#ifndef WEIR_PANEL_H
#define WEIR_PANEL_H

#include "app/talk.h"
#include "ui/ui.h"

enum { FLOW_KINDS = 3, FLOW_KEPT = UI_FLOWS };

/* The bytes of all tokens and where each begins; kept while the sequence only grows. */
struct words { struct tokens id; struct str bytes; uint32_t *start; size_t cap; };

/* Who listens to what happens to rows, and what is remembered from one look to the next; on only while a panel is shown. */
struct listener {
	int on;
	double since;                           /* the rates below are counted from here */
	double share[FLOW_KINDS];               /* tokens; one that half of the pairs of layer and head moved counts half */
	struct ui_flow flow[FLOW_KEPT]; int n_flow;
	struct words words; double lensed;      /* when the words were looked at last */
};
void listener_on(struct listener *, struct timeline *);
void listener_off(struct listener *, struct timeline *);

struct lens { int which; struct ui_span *span; size_t n; };   /* as ui_lens() wants it */
struct panel {
	struct ui_cache cache;                  /* points into what follows */
	struct cache_view view;
	char kv[128];
	struct str names;                       /* of documents */
	uint8_t *heat;                          /* [n_layer][cols] */
	struct lens *lens; size_t n_lens;
	int lensed;                             /* the lenses are new */
};
struct panel *panel_new(void);
void panel_free(struct panel *);
/* how: 1 the bar, 2 all.  read: tokens read so far where reading is under way (the sequence is as long as it will be then), else -1.
 * The words that have left are looked for once a second. */
void panel_look(struct panel *, struct talk *, struct listener *, int how, int32_t read);
/* The index of the first token of each document, -1 = it has not been read: first[n_doc]. */
void panel_documents(const struct talk *, int32_t *first);
/* Everything that the panel shows as one JSON object. */
void panel_json(const struct panel *, struct str *out);

#endif
