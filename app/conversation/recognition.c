/* app/conversation/recognition.c - sets up the import to recognise scanned pages and pictures: passes the options to
 * the import, and names the folder where recognised pages are cached. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "app/conversation/conversation.h"

int recognition_folder(struct str *out)
{
	return user_path(out, DIR_CACHE, "recognised", NULL) || make_parents(out->p) ? -1 : 0;
}

void recognition_begin(const struct options *o, recognition_fn *progress, void *ud)
{
	static char kept[PATH_MAX]; /* static, because the import keeps a pointer to it */
	struct str folder = { 0 };

	*kept = 0;
	if (!o->private_talk && !recognition_folder(&folder) && folder.n < sizeof kept)
		snprintf(kept, sizeof kept, "%s", folder.p);
	str_free(&folder);
	doc_recognise_by(&(struct doc_recognition){
		.languages = o->ocr_lang && strcmp(o->ocr_lang, "auto") != 0 ? o->ocr_lang : NULL,
		.kept = *kept ? kept : NULL,
		.progress = progress,
		.ud = ud,
	});
}

void recognition_text(int32_t page, int32_t pages, double left, struct str *out)
{
	str_addf(out, "recognising page %d of %d", page, pages);
	if (left >= 90)
		str_addf(out, ", %d min %d s left", (int)(left / 60), (int)left % 60);
	else if (left >= 1)
		str_addf(out, ", %.0f s left", left);
}
