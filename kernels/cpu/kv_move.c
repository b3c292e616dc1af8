/* kernels/cpu/kv_move.c - kv_move: copies a layer's keys or values to other slots, and rotates keys by a RoPE shift.
 * All sources are read into a buffer before any slot is written. The cancel flag is ignored: a cache must never be
 * left half moved. */
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/select.h"
#include "kernels/common/quant.h"

enum {
	SMALL_MOVE = 256 << 10, /* up to this number of bytes of entries, one thread is faster than two */
	MOVE_TASK = 64,         /* number of moves in a task */
};

struct move_job {
	struct cpu *c;
	const struct kv_moves *m;
	const int32_t *move;
	const float *shift;
	char *plane;
	enum dtype type;
	size_t row_bytes, move_cols;
	char *stage; /* [n_kv_head][n] copies of the moved entries */
	char *row;   /* one row of floats per thread */
	size_t thread_bytes;
	int32_t blocks;
};

static void move_shift(const struct move_job *j, void *row, const float *shift, int worker)
{
	const struct kv_moves *m = j->m;
	float *x = (float *)(void *)(j->row + (size_t)worker * j->thread_bytes);

	cpu_kv_floats(j->c->fns->select, j->type, x, row, m->head_dim);
	j->c->fns->rope(x, shift, 1, m->head_dim, m->dims, m->neox);
	cpu_kv_row(j->c->fns, j->type, row, x, m->head_dim, x);
}

static void move_read(void *arg, int task, int worker)
{
	const struct move_job *j = arg;
	const struct kv_moves *m = j->m;
	int32_t head = task / j->blocks, i0 = task % j->blocks * MOVE_TASK, i1 = MIN(i0 + MOVE_TASK, m->n);
	const int32_t *move = j->move + (size_t)head * j->move_cols;

	for (int32_t i = i0; i < i1; i++) {
		int32_t from = move[3 * i], shift = move[3 * i + 2];
		char *row = j->stage + ((size_t)head * (size_t)m->n + (size_t)i) * j->row_bytes;

		if (from < 0)
			continue;
		memcpy(row, j->plane + ((size_t)head * (size_t)m->cap + (size_t)from) * j->row_bytes, j->row_bytes);
		if (j->shift && shift >= 0)
			move_shift(j, row, j->shift + (size_t)shift * (size_t)m->dims, worker);
	}
}

/* Write all moves of a KV head in order. If two moves go to one slot, the later move decides. */
static void move_write(void *arg, int task, int worker)
{
	const struct move_job *j = arg;
	const struct kv_moves *m = j->m;
	const int32_t *move = j->move + (size_t)task * j->move_cols;

	(void)worker;
	for (int32_t i = 0; i < m->n; i++)
		if (move[3 * i] >= 0)
			memcpy(j->plane + ((size_t)task * (size_t)m->cap + (size_t)move[3 * i + 1]) * j->row_bytes,
			       j->stage + ((size_t)task * (size_t)m->n + (size_t)i) * j->row_bytes, j->row_bytes);
}

static int moves_ok(struct backend *be, const struct kv_moves *m, const int32_t *move)
{
	int32_t shifts = m->shift ? m->shift->rows : 0;

	for (int32_t h = 0; h < m->n_kv_head; h++, move += m->move->cols)
		for (int32_t i = 0; i < m->n; i++) {
			int32_t from = move[3 * i], to = move[3 * i + 1], shift = move[3 * i + 2];

			if (from == -1)
				continue;
			if (from < 0 || from >= m->cap || to < 0 || to >= m->cap ||
			    (m->shift && (shift < -1 || shift >= shifts))) {
				backend_fail(be,
				             "internal: cannot move slot %d to %d with shift %d in a cache of %d slots",
				             (int)from, (int)to, (int)shift, (int)m->cap);
				return 0;
			}
		}
	return 1;
}

void cpu_kv_move(struct backend *be, struct tensor *plane, const struct kv_moves *m)
{
	struct cpu *c = cpu_of(be);
	struct move_job j = { .c = c, .m = m };
	size_t stage;

	if (be->failed || kv_move_check(be, plane, m) < 0 || m->n == 0)
		return;
	j.move_cols = (size_t)m->move->cols;
	j.move = (const int32_t *)m->move->data + (size_t)m->move_row * j.move_cols;
	if (!moves_ok(be, m, j.move))
		return;
	j.shift = m->shift ? m->shift->data : NULL;
	j.plane = plane->data;
	j.type = plane->type;
	j.row_bytes = row_bytes(plane);
	j.thread_bytes = align64(((size_t)m->head_dim + 16) * sizeof(float));
	j.blocks = ceil_div(m->n, MOVE_TASK);
	stage = align64((size_t)m->n_kv_head * (size_t)m->n * j.row_bytes);
	if (cpu_buffer_grow(c, &c->scratch, stage + j.thread_bytes * (size_t)c->base.threads) < 0)
		return;
	j.stage = c->scratch.p;
	j.row = j.stage + stage;
	if (stage <= SMALL_MOVE) {
		for (int32_t t = 0; t < m->n_kv_head * j.blocks; t++)
			move_read(&j, t, 0);
		for (int32_t h = 0; h < m->n_kv_head; h++)
			move_write(&j, h, 0);
	} else {
		pool_run(c->pool, move_read, &j, m->n_kv_head * j.blocks);
		pool_run(c->pool, move_write, &j, m->n_kv_head);
	}
}
