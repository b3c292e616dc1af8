/* sessions/store/wal.c - detects damage in SQLite's log (chat.db-wal) that happened while no process had it open.
 *
 * SQLite reads the log up to the first frame with a wrong checksum, and silently drops this frame and all later ones.
 * After a crash, the dropped frames are only the transaction that was being written. After a flipped bit, they include
 * committed transactions.
 *
 * To tell the two cases apart, the frames after the wrong one are read, too. The checksum of each frame continues the
 * checksum of the frame before it, and SQLite syncs a transaction before it begins the next one. So if a later frame
 * continues the checksum of a complete transaction, that transaction was once intact on disk. Damage in the last
 * transaction looks like a crash and is not detected. */
#include "sessions/store/store_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEADER = 32, FRAME = 24, PAGE_USUAL = 4096, PAGE_MOST = 65536 };

static uint32_t read_u32(const uint8_t *p, int big)
{
	return big ? (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3]
	           : (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

struct sum {
	uint32_t a, b;
};

static struct sum sum_on(struct sum s, const uint8_t *p, size_t n, int big)
{
	for (size_t i = 0; i + 8 <= n; i += 8) {
		s.a += read_u32(p + i, big) + s.b;
		s.b += read_u32(p + i + 4, big) + s.a;
	}
	return s;
}

static struct sum sum_at(const uint8_t *p)
{
	return (struct sum){ read_u32(p, 1), read_u32(p + 4, 1) };
}

static int sum_equal(struct sum a, struct sum b)
{
	return a.a == b.a && a.b == b.b;
}

/* Scan the frames after the header. Returns the number of transactions that damage has made unreadable. Returns 0 if
 * there is no damage, or if a crash explains it. */
static int log_scan(FILE *f, const uint8_t header[HEADER])
{
	uint32_t magic = read_u32(header, 1), page = read_u32(header + 8, 1);
	int whole = (magic & ~1u) == 0x377f0682 && page >= 512 && page <= PAGE_MOST && !(page & (page - 1));
	int big = whole ? (int)(magic & 1) : __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
	/* The checksum of each frame continues the checksum of the frame before it; the checksum of the first frame
	 * continues that of the header. `said` is the checksum that the file stores for the previous frame. `is` is the
	 * checksum computed from that frame's bytes. If the previous frame is damaged, the two differ, and the next
	 * frame may continue either of them. */
	struct sum said = sum_at(header + 24), is = sum_on((struct sum){ 0, 0 }, header, 24, big);
	uint8_t salt[8], *frame;
	int bad, ended = 0, ends = 0, damaged = 0;

	memcpy(salt, header + 16, 8);
	whole = whole && sum_equal(said, is);
	bad = !whole;
	if (!whole)
		page = PAGE_USUAL;
	frame = xmalloc(FRAME + page);
	for (long n = 0; fread(frame, 1, FRAME + page, f) == FRAME + page; n++) {
		struct sum now = sum_at(frame + 16);
		struct sum from_said = sum_on(sum_on(said, frame, 8, big), frame + FRAME, page, big);
		struct sum from_is = sum_on(sum_on(is, frame, 8, big), frame + FRAME, page, big);
		int follows, first;

		/* if the header is damaged, take the salt from the first frame */
		if (!whole && !n)
			memcpy(salt, frame + 8, 8);
		follows = !memcmp(salt, frame + 8, 8) && (sum_equal(now, from_said) || sum_equal(now, from_is));
		if (bad && ended && follows)
			damaged = 1;
		first = !bad && !follows;
		bad = bad || first;
		ended = read_u32(frame + 4, 1) != 0;
		ends += ended && (first || (bad && follows));
		said = now;
		is = sum_equal(now, from_is) ? from_is : from_said;
	}
	free(frame);
	return damaged ? ends : 0;
}

static int log_copy(FILE *from, const char *to)
{
	char block[65536];
	int fd, rc = 0;
	size_t n;

	/* remove the copy of a log that was damaged earlier */
	unlink(to);
	fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -1;
	rewind(from);
	while (!rc && (n = fread(block, 1, sizeof block, from)) > 0)
		rc = write(fd, block, n) == (ssize_t)n ? 0 : -1;
	rc = rc || ferror(from) || fsync(fd) ? -1 : 0;
	close(fd);
	if (rc)
		unlink(to);
	return rc;
}

void store_check_log(const struct store *s, struct str *notice)
{
	char *path = store_path(s, CHAT_FILE "-wal"), *kept = store_path(s, LOG_COPY);
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK), lost = 0;
	uint8_t header[HEADER];
	struct stat st;
	FILE *f = fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size > HEADER ? fdopen(fd, "rb") : NULL;

	if (f && fread(header, 1, HEADER, f) == HEADER)
		lost = log_scan(f, header);
	if (lost) {
		int failed = log_copy(f, kept);
		if (notice)
			str_addf(notice,
			         "'%s' was damaged on the disk, and up to %d of the last changes are lost; %s '%s'\n",
			         path, lost, failed ? "there is no room for a copy beside it as" : "it was kept as",
			         LOG_COPY);
	}
	if (f)
		fclose(f);
	else if (fd >= 0)
		close(fd);
	free(path);
	free(kept);
}
