/* app/tools/pull_hub.c - lists the files of a repository, by the web interface of huggingface.co and its mirrors
 * (pull.h).
 *
 * HF_ENDPOINT names another server. HF_TOKEN is an access token; without it, the token that Hugging Face's own tools
 * have stored is used. Names, sizes and checksums are not trusted. A file is identified by its SHA-256, so it does not
 * matter which server sends it. */
#include "app/tools/pull.h"
#include "engine/base/json.h"

#include <ctype.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

enum {
	LIST_BYTES_MOST = 16 << 20,
	PAGES_MOST = 100,
	FILES_MOST = 4096,
	NAME_MOST = 96,
	LIST_SECONDS = 300,
	TRIES_MOST = 5,
	CONTACTS_MOST = 3,
	WAIT_MOST = 310,
	TOKEN_MOST = 512
};
static const char public_address[] = "https://huggingface.co";
static const uint64_t file_bytes_most = UINT64_C(1) << 42;

static int name_ok(const char *p, size_t n)
{
	if (!n || n > NAME_MOST || *p == '.' || *p == '-')
		return 0;
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)p[i]) && !strchr("._-+=@", p[i]))
			return 0;
	return 1;
}

/* 1 if the path is safe: it stays inside its folder, and contains no characters that a shell or a terminal
 * interprets. */
static int path_ok(const char *path)
{
	for (const char *p = path;; p++) {
		size_t n = strcspn(p, "/");

		if (!name_ok(p, n))
			return 0;
		p += n;
		if (!*p)
			return 1;
	}
}

/* ---- server and token ---- */

static int take_address(struct hub_repo *r, struct err *e)
{
	const char *set = getenv("HF_ENDPOINT");
	size_t n;

	if (!set || !*set)
		set = public_address;
	n = strlen(set);
	while (n && set[n - 1] == '/')
		n--;
	if (http_has_user(set))
		return err_set(
			e, ERR_USAGE,
			"HF_ENDPOINT has a user name in it; HF_TOKEN gives the token, and a password is not sent");
	if (!doc_is_address(set) || strpbrk(set, " \t\r\n@"))
		return err_set(e, ERR_USAGE,
		               "HF_ENDPOINT must be an address such as https://huggingface.co, and is '%.80s'", set);
	r->address = xstrndup(set, n);
	return 0;
}

/* Read the access token. The token may be sent encrypted, or to a server on this machine. If neither is possible, a
 * token in HF_TOKEN is an error, because the user has set it; a stored token is ignored. */
static int take_token(struct hub_repo *r, struct err *e)
{
	const char *set = getenv("HF_TOKEN"), *home = getenv("HOME"), *hf = getenv("HF_HOME");
	struct str path = { 0 }, text = { 0 };
	int rc = 0;

	if (set && *set) {
		str_adds(&text, set);
	} else {
		if (hf && *hf == '/')
			str_addf(&path, "%s/token", hf);
		else if (home && *home == '/')
			str_addf(&path, "%s/.cache/huggingface/token", home);
		if (path.n && read_whole(path.p, TOKEN_MOST, &text, &(struct err){ 0 }))
			str_clear(&text);
	}
	while (text.n && isspace((unsigned char)text.p[text.n - 1]))
		text.p[--text.n] = 0;
	for (size_t i = 0; i < text.n; i++)
		if (!isgraph((unsigned char)text.p[i]))
			text.n = 0;
	if (text.n && http_is_private(r->address))
		r->token = xstrndup(text.p, text.n);
	else if (text.n && set && *set)
		rc = err_set(
			e, ERR_USAGE,
			"HF_ENDPOINT, '%.100s', is another machine and not encrypted: everybody on the way would read the token; use https, or "
			"unset HF_TOKEN",
			r->address);
	else if (text.n)
		say("the stored token is not sent to %.100s: that is another machine and not encrypted", r->address);
	str_free(&path);
	str_free(&text);
	return rc;
}

/* ---- errors of the server ---- */

static int refused_gated(const struct hub_repo *r, const struct http_reply *reply, struct err *e)
{
	if (strcasestr(reply->message, "awaiting"))
		return err_set(
			e, ERR_FAIL,
			"'%.100s' is gated (%d), and its owners have not yet granted the access that was asked for on %s/%.100s",
			r->name, reply->status, r->address, r->name);
	if (r->token)
		return err_set(
			e, ERR_FAIL,
			"'%.100s' is gated (%d): accept its terms on %s/%.100s with the account that the token is of",
			r->name, reply->status, r->address, r->name);
	return err_set(
		e, ERR_FAIL,
		"'%.100s' is gated (%d): accept its terms on %s/%.100s, then set HF_TOKEN to a token of that account",
		r->name, reply->status, r->address, r->name);
}

static int refused_name(const struct hub_repo *r, const char *host, const char *what, const struct http_reply *reply,
                        struct err *e)
{
	if (!strcmp(reply->code, "RevisionNotFound"))
		return err_set(e, ERR_FAIL, "'%.100s' has no revision '%.60s' (%d): look at %s/%.100s", r->name,
		               r->revision, reply->status, r->address, r->name);
	if (what)
		return err_set(
			e, ERR_FAIL,
			"'%.100s' lists a file '%.100s' but does not have it (%d): run the same command again, or look at %s/%.100s",
			r->name, what, reply->status, r->address, r->name);
	return err_set(
		e, ERR_FAIL,
		"there is no repository '%.100s' on %s (%d); its name is ORG/NAME, as in the address of its page",
		r->name, host, reply->status);
}

int hub_refused(const struct hub_repo *r, const char *what, const struct http_reply *reply, struct err *e)
{
	const char *host = strstr(r->address, "://") + 3;

	/* the reply comes from another server, which stores the files; addresses on that server expire after a while */
	if (reply->elsewhere && reply->status != 429 && reply->status < 500)
		return err_set(e, ERR_FAIL,
		               "the storage that %s redirects to refuses '%.100s' (%d): run the same command again",
		               host, what ? what : r->name, reply->status);
	if (!strcmp(reply->code, "GatedRepo"))
		return refused_gated(r, reply, e);
	switch (reply->status) {
	case 401:
		if (r->token)
			return err_set(
				e, ERR_FAIL,
				"%s does not accept the token (401): 'HF_TOKEN' may be wrong or expired, or '%.100s' does not exist",
				host, r->name);
		if (what) /* the repository exists, because the server has listed its files */
			return refused_gated(r, reply, e);
		return err_set(
			e, ERR_FAIL,
			"'%.100s' does not exist on %s or needs an access token (401): check the name, or set HF_TOKEN",
			r->name, host);
	case 403:
		if (!reply->message[0])
			return refused_gated(r, reply, e);
		return err_set(e, ERR_FAIL, "%s refuses '%.100s' (403): %.160s", host, r->name, reply->message);
	case 404: return refused_name(r, host, what, reply, e);
	case 429:
		return err_set(
			e, ERR_FAIL,
			"%s answers that there were too many requests (429): run the same command later, it continues where it was%s",
			host, r->token ? "" : "; with an access token in HF_TOKEN it allows more");
	}
	if (reply->status >= 500)
		return err_set(e, ERR_FAIL,
		               "%s cannot answer now (%d): run the same command later, it continues where it was", host,
		               reply->status);
	return err_set(e, ERR_FAIL, "%s answers %d to a request for '%.100s'", host, reply->status,
	               what ? what : r->name);
}

int hub_wait(const struct http_reply *reply, int tries, struct err *e)
{
	int seconds = reply->retry_after > 0 ? reply->retry_after : tries > 1 ? 1 << (tries - 2) : 0;
	int helps = reply->broken || reply->status == 429 || reply->status >= 500 ||
	            (reply->elsewhere && reply->status == 403);
	double end = now_seconds() + (seconds ? seconds : 0.05);

	if (tries > TRIES_MOST || seconds > WAIT_MOST || !helps)
		return -1;
	if (seconds >= 4)
		say("%s: trying again in %d s",
		    reply->status == 429 ? "the server asks to wait, after too many requests"
		                         : "the server does not answer",
		    seconds);
	while (now_seconds() < end) {
		if (signals_stopped())
			return err_set(e, ERR_CANCELLED, "stopped");
		poll(NULL, 0, 50);
	}
	return 0;
}

/* ---- the list of files ---- */

static int on_list(const void *p, size_t n, void *ud, struct err *e)
{
	struct str *s = ud;

	if (s->n + n > LIST_BYTES_MOST)
		return err_set(e, ERR_FAIL, "the list of files is longer than 16 MiB");
	str_add(s, p, n);
	return 0;
}

/* Send a request and read the reply into *out, with retries. *reply receives the header of the last reply. */
static int ask_server(const struct hub_repo *r, const char *url, struct str *out, struct http_reply *reply,
                      struct err *e)
{
	struct http_request q = { .url = url,
		                  .first = -1,
		                  .last = -1,
		                  .token = r->token,
		                  .seconds = LIST_SECONDS,
		                  .bytes = on_list,
		                  .stopped = signals_stopped,
		                  .ud = out };
	int rc;

	for (int tries = 1;; tries++) {
		struct err why = { 0 };

		str_clear(out);
		rc = http_get(&q, reply, &why);
		if (!rc && reply->status == 200)
			return 0;
		if (!rc)
			rc = hub_refused(r, NULL, reply, &why);
		else if (why.code == ERR_DOCUMENT)
			err_set(&why, ERR_FAIL, "%.250s: check the network, and HF_ENDPOINT if it is set", why.msg);
		if (why.code == ERR_CANCELLED || (reply->broken && tries == CONTACTS_MOST) ||
		    hub_wait(reply, tries, &why)) {
			*e = why;
			return rc;
		}
	}
}

/* Send a request and read the reply, which must be a complete JSON list (open = '[') or object (open = '{'). */
static int ask_json(const struct hub_repo *r, const char *url, char open, struct str *out, struct http_reply *reply,
                    struct err *e)
{
	struct jv all;

	if (ask_server(r, url, out, reply, e))
		return -1;
	all = jv_parse(str_text(out), out->n);
	if (!all.p || *all.p != open)
		return err_set(
			e, ERR_FAIL,
			"%s does not answer as huggingface.co does: check HF_ENDPOINT, and whether the network has a login page",
			r->address);
	while (out->n && isspace((unsigned char)out->p[out->n - 1]))
		out->n--;
	if (out->p[out->n - 1] != open + 2) /* check the closing bracket; in ASCII, ']' is '[' + 2 and '}' is '{' + 2 */
		return err_set(e, ERR_FAIL, "the answer of %s is cut off: run the same command again", r->address);
	return 0;
}

/* Set r->commit to the commit to which r->revision refers now. */
static int ask_commit(struct hub_repo *r, struct err *e)
{
	struct str url = { 0 }, body = { 0 }, sha = { 0 };
	struct http_reply reply;
	int rc;

	str_addf(&url, "%s/api/models/%s/revision/%s?expand=sha", r->address, r->name, r->revision);
	rc = ask_json(r, url.p, '{', &body, &reply, e);
	if (!rc && (jv_text(jv_get(jv_parse(body.p, body.n), "sha"), &sha) || sha.n != 40 ||
	            strspn(sha.p, "0123456789abcdef") != 40))
		rc = err_set(e, ERR_FAIL, "%s does not say which commit '%.100s' is at: check HF_ENDPOINT", r->address,
		             r->name);
	if (!rc)
		memcpy(r->commit, sha.p, sizeof r->commit);
	str_free(&url);
	str_free(&body);
	str_free(&sha);
	return rc;
}

/* Set *url to the address of the list's next page, which must be on the same server. If a mirror sends an address of
 * huggingface.co, change it to an address of the mirror. */
static int next_page(const struct hub_repo *r, const char *next, struct str *url, struct err *e)
{
	size_t n = strlen(r->address), public = sizeof public_address - 1;

	str_clear(url);
	if (!strncasecmp(next, r->address, n) && next[n] == '/')
		str_addf(url, "%s%s", r->address, next + n);
	else if (!strncasecmp(next, public_address, public) && next[public] == '/')
		str_addf(url, "%s%s", r->address, next + public);
	else if (next[0] == '/' && next[1] != '/')
		str_addf(url, "%s%s", r->address, next);
	else
		return err_set(
			e, ERR_FAIL,
			"the list of files of '%.100s' goes on at another server, '%.80s': is HF_ENDPOINT right?",
			r->name, next);
	return 0;
}

/* Add a file of the list, if it is a GGUF file. Returns 1 if the file was skipped because its name, size or checksum is
 * invalid; else 0. */
static int add_file(struct hub_repo *r, struct jv entry)
{
	struct str path = { 0 }, sum = { 0 };
	struct jv lfs = jv_get(entry, "lfs");
	struct hub_file f = { .bytes = 0 };
	double size = 0;
	int odd = 0;

	if (!jv_is(jv_get(entry, "type"), "file") || jv_text(jv_get(entry, "path"), &path) || path.n < 6 ||
	    strcasecmp(path.p + path.n - 5, ".gguf") != 0)
		goto out;
	odd = 1;
	if (strlen(path.p) != path.n || !path_ok(path.p))
		goto out;
	if (jv_number(jv_get(lfs, "size"), &size) || !(size >= 1 && size <= (double)file_bytes_most) ||
	    size != (double)(uint64_t)size)
		goto out;
	if (jv_text(jv_get(lfs, "oid"), &sum) || sum.n != 64 || strspn(sum.p, "0123456789abcdef") != 64)
		goto out;
	f.path = xstrndup(path.p, path.n);
	f.bytes = (uint64_t)size;
	memcpy(f.sum, sum.p, 65);
	r->file = xrealloc(r->file, (r->n + 1) * sizeof *r->file);
	r->file[r->n++] = f;
	odd = 0;
out:
	str_free(&path);
	str_free(&sum);
	return odd;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct hub_file *)a)->path, ((const struct hub_file *)b)->path);
}

/* Read all pages of the list. Returns the number of GGUF files that were skipped, or -1. */
static int ask_files(struct hub_repo *r, struct err *e)
{
	struct str url = { 0 }, list = { 0 };
	struct http_reply reply = { .next = "" };
	int rc = 0, odd = 0;

	str_addf(&url, "%s/api/models/%s/tree/%s?recursive=true", r->address, r->name, r->commit);
	for (int page = 1; !rc; page++) {
		struct jv all, it = { 0 };

		rc = ask_json(r, url.p, '[', &list, &reply, e);
		if (rc)
			break;
		all = jv_parse(list.p, list.n);
		while (r->n <= FILES_MOST && jv_next(all, &it, NULL))
			odd += add_file(r, it);
		if (r->n > FILES_MOST)
			rc = err_set(e, ERR_FAIL, "'%.100s' has more than %d GGUF files", r->name, FILES_MOST);
		if (rc || !reply.next[0])
			break;
		if (page == PAGES_MOST)
			rc = err_set(e, ERR_FAIL, "the list of files of '%.100s' has more than %d pages", r->name,
			             PAGES_MOST);
		else
			rc = next_page(r, reply.next, &url, e);
	}
	str_free(&url);
	str_free(&list);
	return rc ? -1 : odd;
}

int hub_open(struct hub_repo *r, const char *name, const char *revision, struct err *e)
{
	const char *slash = strchr(name, '/');
	int odd;

	*r = (struct hub_repo){ .n = 0 };
	if (!slash || strchr(slash + 1, '/') || !path_ok(name))
		return err_set(e, ERR_USAGE, "a repository is named ORG/NAME, and '%.80s' is not", name);
	if (!revision || !*revision)
		revision = "main";
	for (const char *p = revision; *p; p++)
		if (!isalnum((unsigned char)*p) && (p == revision || !strchr("._-%", *p)))
			return err_set(e, ERR_USAGE, "a revision is a branch, tag or commit, and '%.80s' is not",
			               revision);
	r->name = xstrndup(name, strlen(name));
	r->revision = xstrndup(revision, strlen(revision));
	if (take_address(r, e) || take_token(r, e) || ask_commit(r, e) || (odd = ask_files(r, e)) < 0)
		return -1;
	if (r->n)
		qsort(r->file, r->n, sizeof *r->file, by_path);
	else if (odd)
		return err_set(
			e, ERR_FAIL,
			"no GGUF file of '%.100s' has a plain name, a size and a checksum: it cannot be fetched safely",
			r->name);
	else
		return err_set(e, ERR_FAIL,
		               "'%.100s' holds no GGUF file: look for a repository whose name ends with -GGUF",
		               r->name);
	return 0;
}

void hub_free(struct hub_repo *r)
{
	for (size_t i = 0; i < r->n; i++)
		free(r->file[i].path);
	free(r->file);
	free(r->name);
	free(r->address);
	free(r->token);
	free(r->revision);
	*r = (struct hub_repo){ .n = 0 };
}

void hub_file_address(const struct hub_repo *r, const struct hub_file *f, struct str *out)
{
	str_addf(out, "%s/%s/resolve/%s/", r->address, r->name, r->commit);
	/* Escape the two characters that path_ok() allows but that must be escaped in a URL. */
	for (const char *p = f->path; *p; p++)
		str_addf(out, *p == '+' ? "%%2B" : *p == '=' ? "%%3D" : "%c", *p);
}
