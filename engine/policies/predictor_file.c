/* engine/policies/predictor_file.c - files of networks for the policy `predict`. The user's files are in
 * $XDG_DATA_HOME/weir/predict; files for the default model are installed in share/weir/predict. A file is named after
 * the model's fingerprint in hexadecimal, the block size and the number of rows: "291be31757f20c57-block16-rows64".
 *
 * A file is a header of 64 bytes, then the weights as f32, little-endian. The header: "WEIRPRED", u32 version, u32
 * block, u32 rows, u32 number of weights, u64 fingerprint of the model, u64 hash of the weights, zeros. In files of
 * older versions, the u32 after the hash is the kind of network: 1 = a perceptron, 2 = an LSTM. Files of these kinds
 * are refused. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/policies/predictor.h"
#include "engine/base/base.h"

enum { HEAD_BYTES = 64, FILE_BYTES = HEAD_BYTES + PREDICTOR_WEIGHTS * 4, VERSION = 1 };
static const char magic[8] = { 'W', 'E', 'I', 'R', 'P', 'R', 'E', 'D' };

/* Append "predict/NAME". */
static void add_name(struct str *out, const struct predictor_key *k)
{
	str_addf(out, "predict/%016" PRIx64 "-block%d-rows%d", k->fingerprint, k->block, k->rows);
}

/* Append the path of the user's file. Return -1 if there is no home directory. */
static int user_file(struct str *out, const struct predictor_key *k, struct err *err)
{
	struct str name = { 0 };
	int rc;

	add_name(&name, k);
	rc = user_path(out, DIR_DATA, name.p, err);
	str_free(&name);
	return rc;
}

static void head_of(uint8_t head[HEAD_BYTES], const struct predictor_key *k, const struct predictor *p)
{
	const uint32_t number[4] = { VERSION, (uint32_t)k->block, (uint32_t)k->rows, PREDICTOR_WEIGHTS };
	uint64_t sum = hash64(0, p, sizeof *p);

	memset(head, 0, HEAD_BYTES);
	memcpy(head, magic, 8);
	memcpy(head + 8, number, 16);
	memcpy(head + 24, &k->fingerprint, 8);
	memcpy(head + 32, &sum, 8);
}

static int all_finite(const struct predictor *p)
{
	const float *w = (const float *)p;
	int ok = 1;

	for (int i = 0; i < PREDICTOR_WEIGHTS; i++)
		ok &= isfinite(w[i]) != 0;
	return ok;
}

int predictor_parse(struct predictor *out, const struct predictor_key *k, const void *bytes, size_t n, const char *path,
                    struct err *err)
{
	struct predictor p;
	uint8_t head[HEAD_BYTES];
	uint32_t kind;

	if (n != FILE_BYTES)
		return err_set(err, ERR_FAIL, "'%s' holds no predictor: it has %zu bytes instead of %d; remove it",
		               path, n, FILE_BYTES);
	memcpy(&p, (const uint8_t *)bytes + HEAD_BYTES, sizeof p);
	memcpy(&kind, (const uint8_t *)bytes + 40, sizeof kind);
	head_of(head, k, &p);
	if (!memcmp(magic, bytes, sizeof magic) && (kind == 1 || kind == 2))
		return err_set(err, ERR_FAIL,
		               "'%s' holds a perceptron or an LSTM, which weir no longer runs; remove it", path);
	if (memcmp(head, bytes, HEAD_BYTES) || !all_finite(&p))
		return err_set(
			err, ERR_FAIL,
			"'%s' is damaged, or holds the predictor of another model, block or number of rows; remove it",
			path);
	*out = p;
	return 0;
}

/* Return 1 if the file was read, 0 if there is no such file, -1 on error. */
static int file_read(struct predictor *out, const struct predictor_key *k, const char *path, struct err *err)
{
	uint8_t bytes[FILE_BYTES + 1];
	ssize_t n;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc;

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (fd < 0)
		return err_set(err, ERR_FAIL, "cannot read '%s': %s", path, strerror(errno));
	do
		n = read(fd, bytes, sizeof bytes);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		rc = err_set(err, ERR_FAIL, "cannot read '%s': %s", path, strerror(errno));
	else
		rc = predictor_parse(out, k, bytes, (size_t)n, path, err) ? -1 : 1;
	close(fd);
	return rc;
}

int predictor_find(struct predictor *out, const struct predictor_key *k, struct err *err)
{
	struct str path = { 0 }, name = { 0 };
	int got = user_file(&path, k, NULL) ? 0 : file_read(out, k, path.p, err);

	str_clear(&path);
	add_name(&name, k);
	if (!got && !data_file(&path, name.p, NULL))
		got = file_read(out, k, path.p, err);
	if (!got)
		err_set(err, ERR_USAGE,
		        "cache policy 'predict' has no predictor for this model with block=%d,rows=%d; 'weir eval predictor "
		        "train TEXT --block %d --rows %d' trains one (for the default model weir installs block=1, 4 and 16 "
		        "with rows=64 in share/weir/predict)",
		        k->block, k->rows, k->block, k->rows);
	str_free(&path);
	str_free(&name);
	return got > 0 ? 0 : -1;
}

/* Make the missing folders on the path of a file. */
static int folders_make(const char *path, struct err *err)
{
	struct str dir = { 0 };
	int rc = 0;

	for (const char *slash = path; !rc && (slash = strchr(slash + 1, '/'));) {
		str_clear(&dir);
		str_add(&dir, path, (size_t)(slash - path));
		if (mkdir(dir.p, 0700) && errno != EEXIST && errno != EROFS && errno != EACCES)
			rc = err_set(err, ERR_FAIL, "cannot make the folder '%s': %s", dir.p, strerror(errno));
	}
	str_free(&dir);
	return rc;
}

int predictor_save(const struct predictor *p, const struct predictor_key *k, struct str *path, struct err *err)
{
	uint8_t bytes[FILE_BYTES];
	struct str next = { 0 };
	size_t at = path->n;
	int fd, rc;

	if (!all_finite(p))
		return err_set(err, ERR_FAIL, "training gave weights that are no numbers");
	head_of(bytes, k, p);
	memcpy(bytes + HEAD_BYTES, p, sizeof *p);
	if (user_file(path, k, err))
		return -1;
	str_addf(&next, "%s.new", path->p + at);
	rc = folders_make(path->p + at, err);
	fd = rc ? -1 : open(next.p, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	/* after a crash the file may be incomplete; predictor_parse() then refuses it */
	if (!rc && (fd < 0 || write(fd, bytes, sizeof bytes) != (ssize_t)sizeof bytes || fsync(fd)))
		rc = err_set(err, ERR_FAIL, "cannot write '%s': %s", next.p, strerror(errno));
	if (fd >= 0 && close(fd) && !rc)
		rc = err_set(err, ERR_FAIL, "cannot write '%s': %s", next.p, strerror(errno));
	if (!rc && rename(next.p, path->p + at))
		rc = err_set(err, ERR_FAIL, "cannot replace '%s': %s", path->p + at, strerror(errno));
	if (rc && fd >= 0)
		unlink(next.p);
	str_free(&next);
	return rc;
}
