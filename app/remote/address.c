/* app/remote/address.c - parses the address of a server, and decides which requests may carry the key
 * (remote_private.h). */
#include "app/remote/remote_private.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { URL_MOST = 500, KEY_MOST = 4096 };

int remote_is_address(const char *text)
{
	return text && (!strncasecmp(text, "http://", 7) || !strncasecmp(text, "https://", 8));
}

void address_free(struct address *a)
{
	str_free(&a->api);
	str_free(&a->root);
	str_free(&a->server);
	str_free(&a->query);
}

int address_read(struct address *a, const char *url, struct err *e)
{
	size_t n = strcspn(url, "?"), authority, host;
	const char *p, *path;

	*a = (struct address){ .secure = !strncasecmp(url, "https://", 8) };
	if (http_has_user(url))
		return err_set(
			e, ERR_USAGE,
			"the address of the server has a user name in it; WEIR_API_KEY or --key-file gives the key");
	if (!remote_is_address(url))
		return err_set(e, ERR_USAGE,
		               "'%.100s' is no address of a server: it begins with http:// or https://%s%.100s%s", url,
		               strstr(url, "://") ? "" : ", as 'http://", strstr(url, "://") ? "" : url,
		               strstr(url, "://") ? "" : "'");
	if (strlen(url) > URL_MOST)
		return err_set(e, ERR_USAGE, "the address of the server is longer than %d bytes", URL_MOST);
	p = strstr(url, "://") + 3;
	authority = strcspn(p, "/?");
	for (const char *c = url; *c; c++)
		if ((unsigned char)*c <= ' ' || (unsigned char)*c >= 0x7f || strchr("#\\\"", *c))
			return err_set(e, ERR_USAGE,
			               "the address of the server, '%.*s', has a character that it cannot have",
			               n < 100 ? (int)n : 100, url);
	host = *p == '[' ? strcspn(p, "]") + 1 : strcspn(p, ":/?");
	if (!host || host > authority)
		return err_set(e, ERR_USAGE, "the address of the server, '%.100s', names no host", url);
	a->here = http_is_here(url);
	path = p + authority;
	while (n && url[n - 1] == '/' && url + n > path)
		n--;
	str_add(&a->server, url, (size_t)(path - url));
	str_add(&a->api, url, n);
	if (url + n <= path)
		str_adds(&a->api, "/v1");
	str_adds(&a->query, url + strcspn(url, "?"));
	n = a->api.n;
	str_add(&a->root, a->api.p, n > 3 && !strcmp(a->api.p + n - 3, "/v1") ? n - 3 : n);
	return 0;
}

/* ---- the key ---- */

static int read_file(const char *path, struct str *key, struct err *e)
{
	char buf[KEY_MOST + 2];
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n;

	if (fd < 0)
		return err_set(e, ERR_USAGE, "cannot read the key file '%.200s': %s", path, strerror(errno));
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return err_set(e, ERR_USAGE, "the key file '%.200s' is no file", path);
	}
	if ((st.st_mode & 077) || (st.st_uid != geteuid() && st.st_uid != 0)) {
		close(fd);
		return err_set(e, ERR_USAGE,
		               "others can read or change the key file '%.200s'; 'chmod 600' makes it yours alone",
		               path);
	}
	n = read(fd, buf, sizeof buf);
	close(fd);
	if (n < 0)
		return err_set(e, ERR_USAGE, "cannot read the key file '%.200s': %s", path, strerror(errno));
	while (n && strchr(" \t\r\n", buf[n - 1]))
		n--;
	str_add(key, buf, (size_t)n);
	explicit_bzero(buf, sizeof buf);
	return 0;
}

int key_read(const struct remote_options *o, const struct address *a, struct str *key, struct err *e)
{
	if (o->key && *o->key)
		str_adds(key, o->key);
	else if (o->key_file && read_file(o->key_file, key, e) < 0)
		return -1;
	if (!key->n)
		return o->key_file && !(o->key && *o->key)
		               ? err_set(e, ERR_USAGE, "the key file '%.200s' is empty", o->key_file)
		               : 0;
	if (key->n > KEY_MOST)
		return err_set(e, ERR_USAGE, "the key is longer than %d bytes", KEY_MOST);
	for (size_t i = 0; i < key->n; i++)
		if ((unsigned char)key->p[i] <= ' ' || (unsigned char)key->p[i] >= 0x7f)
			return err_set(e, ERR_USAGE, "the key has blanks or characters that are not ASCII in it");
	if (!a->secure && !a->here && !o->insecure)
		return err_set(
			e, ERR_USAGE,
			"'%.100s' is another machine and not encrypted: everybody on the way would read the key; use https, or "
			"--insecure to send it anyway",
			a->server.p);
	return 0;
}
