/* app/tools/models.c - weir models: the models in the cache directory. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "app/tools/tools.h"
#include "ui/ui.h"

static int is_gguf(const struct dirent *d)
{
	size_t n = strlen(d->d_name);

	return n > 5 && !strcmp(d->d_name + n - 5, ".gguf");
}

int cmd_models(const struct options *o)
{
	struct str dir = {0}, s = {0}, used = {0};
	struct dirent **list = NULL;
	struct err e = {0};
	int n, rc;

	if (user_path(&dir, DIR_CACHE, "models", &e))
		return fail(&e);
	if (model_path(o, &used, NULL) < 0)
		str_clear(&used);
	n = scandir(dir.p, &list, is_gguf, alphasort);
	for (int i = 0; i < n; i++) {
		struct str path = {0};
		struct stat st;
		str_addf(&path, "%s/%s", dir.p, list[i]->d_name);
		if (!stat(path.p, &st) && S_ISREG(st.st_mode)) {
			str_adds(&s, used.n && !strcmp(used.p, path.p) ? "* " : "  ");
			clean_line(path.p, path.n, &s);
			str_adds(&s, "  ");
			human_bytes(&s, (uint64_t)st.st_size);
			str_adds(&s, "\n");
		}
		str_free(&path);
		free(list[i]);
	}
	free(list);
	if (o->model) {
		str_adds(&s, "* ");
		clean_line(o->model, strlen(o->model), &s);
		str_adds(&s, "  (-m, WEIR_MODEL or config)\n");
	}
	rc = s.n && print_all(s.p, s.n, &e) < 0 ? fail(&e) : 0;
	if (!s.n && !o->quiet)
		say("no model in '%s': run 'make run' once to fetch the default one, or give -m FILE.gguf", dir.p);
	str_free(&dir);
	str_free(&s);
	str_free(&used);
	return rc;
}
