/* sessions/import/ocr_kept.c - stores the text of recognised pages (ocr.h), so that no page is recognised twice.
 *
 * The folder has one file for each document and each way in which it was recognised (languages, program). The name of
 * the file consists of hashes of both. A page is appended to the file as soon as it is recognised: "PAGE BYTES\n", its
 * text, "\n". If a crash has truncated a record, the next page overwrites it. When the folder exceeds FOLDER_MAX, the
 * least recently changed files are deleted. */
#include "sessions/import/ocr.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX   (64u << 20)
#define FOLDER_MAX (128ll << 20) /* maximum size of the folder in bytes */

/* Parse the record of a page at byte `at`. Returns the offset after the record; 0 = the record is incomplete. */
static size_t record_at(const struct str *s, size_t at, int32_t *page, size_t *text, size_t *n)
{
	unsigned long number = 0, bytes = 0;
	int head = 0;

	if (at >= s->n || sscanf(s->p + at, "%9lu %9lu%n", &number, &bytes, &head) != 2 ||
	    s->p[at + (size_t)head] != '\n')
		return 0;
	*page = (int32_t)number;
	*text = at + (size_t)head + 1;
	*n = bytes;
	if (*text > s->n || bytes >= s->n - *text || s->p[*text + bytes] != '\n')
		return 0;
	return *text + bytes + 1;
}

static void read_pages(struct ocr_kept *k)
{
	int fd = open(k->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	size_t at = 0, next, text, n;
	char buf[65536];
	int32_t page;
	ssize_t got;

	while (fd >= 0 && k->pages.n < FILE_MAX && (got = read(fd, buf, sizeof buf)) > 0)
		str_add(&k->pages, buf, (size_t)got);
	if (fd >= 0)
		close(fd);
	while ((next = record_at(&k->pages, at, &page, &text, &n)))
		at = next;
	k->pages.n = at;
	if (k->pages.p)
		k->pages.p[at] = 0;
}

/* Append the first 16 bytes of a hash in hexadecimal. */
static void add_half(struct str *out, const uint8_t hash[32])
{
	for (int i = 0; i < 16; i++)
		str_addf(out, "%02x", hash[i]);
}

void ocr_kept_open(struct ocr_kept *k, const char *folder, const uint8_t document[32], const uint8_t way[32])
{
	struct str path = { 0 };

	*k = (struct ocr_kept){ 0 };
	if (!folder)
		return;
	k->folder = xstrndup(folder, strlen(folder));
	str_addf(&path, "%s/", folder);
	add_half(&path, document);
	add_half(&path, way);
	k->path = path.p;
	read_pages(k);
}

int ocr_kept_get(const struct ocr_kept *k, int32_t page, struct str *out)
{
	size_t text, n, next;
	int32_t number;

	for (size_t at = 0; (next = record_at(&k->pages, at, &number, &text, &n)); at = next)
		if (number == page) {
			str_add(out, k->pages.p + text, n);
			return 1;
		}
	return 0;
}

/* 1 if the file `name` in the folder is a file with recognised pages. Sets *st to its status. */
static int is_kept(DIR *dir, const char *name, struct stat *st)
{
	return strlen(name) == 64 && !fstatat(dirfd(dir), name, st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st->st_mode);
}

/* 1 if the file contains pages of one of the documents hash[n]: its name begins with the first 16 bytes of the hash. */
static int is_of_document(const char *name, const uint8_t (*hash)[32], size_t n)
{
	unsigned byte;
	uint8_t half[16];

	for (int i = 0; i < 16; i++) {
		if (sscanf(name + 2 * i, "%2x", &byte) != 1)
			return 0;
		half[i] = (uint8_t)byte;
	}
	for (size_t i = 0; i < n; i++)
		if (!memcmp(hash[i], half, sizeof half))
			return 1;
	return 0;
}

void doc_recognised_prune(const char *folder, const uint8_t (*hash)[32], size_t n)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	struct stat st;

	while (dir && (entry = readdir(dir)))
		if (is_kept(dir, entry->d_name, &st) && !is_of_document(entry->d_name, hash, n))
			unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir)
		closedir(dir);
}

/* Delete the least recently changed files, until the folder is small enough. */
static void folder_shrink(const char *folder)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	char oldest[80];

	while (dir) {
		long long all = 0;
		time_t least = 0;
		*oldest = 0;
		rewinddir(dir);
		while ((entry = readdir(dir))) {
			struct stat st;
			if (!is_kept(dir, entry->d_name, &st))
				continue;
			all += st.st_size;
			if (!*oldest || st.st_mtime < least) {
				least = st.st_mtime;
				snprintf(oldest, sizeof oldest, "%.64s", entry->d_name);
			}
		}
		if (all <= FOLDER_MAX || unlinkat(dirfd(dir), oldest, 0))
			break;
	}
	if (dir)
		closedir(dir);
}

void ocr_kept_put(struct ocr_kept *k, int32_t page, const struct str *text)
{
	size_t at = k->pages.n, done = 0;
	ssize_t put = 1;
	int fd;

	if (!k->path || at + text->n > FILE_MAX)
		return;
	if (!at && (!mkdir(k->folder, 0700) || errno == EEXIST))
		folder_shrink(k->folder);
	str_addf(&k->pages, "%d %zu\n", page, text->n);
	str_add(&k->pages, str_text(text), text->n);
	str_adds(&k->pages, "\n");
	fd = open(k->path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd >= 0 && ftruncate(fd, (off_t)at))
		put = -1;
	while (fd >= 0 && put > 0 && done < k->pages.n - at) {
		put = pwrite(fd, k->pages.p + at + done, k->pages.n - at - done, (off_t)(at + done));
		done += put > 0 ? (size_t)put : 0;
	}
	if (fd >= 0)
		close(fd);
}

void ocr_kept_close(struct ocr_kept *k)
{
	free(k->folder);
	free(k->path);
	str_free(&k->pages);
}
