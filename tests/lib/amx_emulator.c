/* tests/lib/amx_emulator.c - decodes and executes AMX instructions (amx_emulator.h). At an instruction that the
 * processor would refuse, for example because the shapes of tile registers do not match, the process ends. */
#define amx_permit machine_amx_permit
#include "kernels/cpu/amx_permit.c" /* the kernels' own amx_permit(), renamed: used on machines with AMX */
#undef amx_permit

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "tests/lib/amx_emulator.h"

const char *amx_permit(void);

static enum amx_kind kind;
static _Atomic unsigned long executed;

unsigned long amx_emulated(void)
{
	return executed;
}

#ifdef __x86_64__
#include <ucontext.h>

#include "kernels/macros.h"

enum { TILES = 8, ROWS = 16, BYTES = 64 };

/* The tile registers of a thread. */
static __thread struct {
	int configured;
	uint16_t bytes[TILES];
	uint8_t rows[TILES];
	int8_t data[TILES][ROWS][BYTES];
} tiles;

/* A VEX instruction of three prefix bytes in the opcode map 0F38. */
struct instruction {
	const uint8_t *p;
	size_t length;
	uint8_t opcode, prefix;  /* prefix: 0 none, 1 = 66, 2 = F3, 3 = F2 */
	uint8_t mod, reg, rm, v; /* register numbers; v comes from the prefix bytes */
	uintptr_t address;       /* address of the operand in memory; for tile loads, address of row 0 */
	size_t stride;
};

static void must(int ok, const char *why)
{
	if (ok)
		return;
	if (write(2, why, strlen(why)) < 0)
		_exit(1);
	abort();
}

/* Return general register n, in the numbering of instructions. */
static uintptr_t general(const ucontext_t *u, int n)
{
	static const int at[16] = { REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
		                    REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15 };

	return (uintptr_t)u->uc_mcontext.gregs[at[n]];
}

/* Decode the operand in memory: base + index * scale + displacement. In a tile load, index * scale is the stride. */
static void decode_memory(struct instruction *i, const ucontext_t *u, int high_base, int high_index)
{
	const uint8_t *p = i->p + 5;
	int base = i->rm, has_sib = i->rm == 4;
	int32_t displacement = 0;

	if (has_sib) {
		int index = (*p >> 3 & 7) | high_index << 3;

		base = *p & 7;
		i->stride = index == 4 ? 0 : general(u, index) << (*p >> 6);
		p++;
	}
	i->address = i->mod == 0 && base == 5 ? 0 : general(u, base | high_base << 3);
	if (i->mod == 1) {
		displacement = (int8_t)*p++;
	} else if (i->mod == 2 || (i->mod == 0 && base == 5)) {
		memcpy(&displacement, p, 4);
		p += 4;
	}
	if (i->mod == 0 && base == 5 && !has_sib) /* the address is relative to the next instruction */
		i->address = (uintptr_t)p;
	i->address += (uintptr_t)(intptr_t)displacement;
	i->length = (size_t)(p - i->p);
}

/* Decode the instruction at p. Returns 0 if it is no AMX instruction. */
static int decode(struct instruction *i, const uint8_t *p, const ucontext_t *u)
{
	if (p[0] != 0xc4 || (p[1] & 31) != 2 || (p[2] & 0x84))
		return 0;
	*i = (struct instruction){
		.p = p,
		.length = 5,
		.opcode = p[3],
		.prefix = p[2] & 3,
		.mod = p[4] >> 6,
		.reg = p[4] >> 3 & 7,
		.rm = p[4] & 7,
		.v = ~p[2] >> 3 & 15,
	};
	if (i->opcode != 0x49 && i->opcode != 0x4b && i->opcode != 0x5e)
		return 0;
	if (i->mod != 3)
		decode_memory(i, u, !(p[1] & 0x20), !(p[1] & 0x40));
	return 1;
}

/* ldtilecfg: a palette, and the shapes of eight registers. */
static void configure(const uint8_t *p)
{
	memset(&tiles, 0, sizeof tiles);
	must(p[0] == 1 && p[1] == 0, "AMX: wrong palette\n");
	for (int i = 2; i < 16; i++)
		must(!p[i], "AMX: reserved bytes of a configuration\n");
	for (int t = 0; t < 16; t++) {
		uint16_t bytes;
		uint8_t rows = p[48 + t];

		memcpy(&bytes, p + 16 + 2 * t, 2);
		must(t < TILES || (!bytes && !rows), "AMX: reserved registers of a configuration\n");
		must(bytes <= BYTES && rows <= ROWS && !bytes == !rows, "AMX: wrong shape\n");
		if (t < TILES) {
			tiles.bytes[t] = bytes;
			tiles.rows[t] = rows;
		}
	}
	tiles.configured = 1;
}

static void tile_move(const struct instruction *i, int store)
{
	must(i->mod != 3 && i->rm == 4 && tiles.configured && tiles.rows[i->reg], "AMX: wrong load or store\n");
	if (!store)
		memset(tiles.data[i->reg], 0, sizeof tiles.data[0]);
	for (int r = 0; r < tiles.rows[i->reg]; r++) {
		char *memory = (char *)i->address + (size_t)r * i->stride; /* NOLINT */

		if (store)
			memcpy(memory, tiles.data[i->reg][r], tiles.bytes[i->reg]);
		else
			memcpy(tiles.data[i->reg][r], memory, tiles.bytes[i->reg]);
	}
}

/* Execute tdpbssd, tdpbsud, tdpbusd or tdpbuud: c[m][n] += the sum over k of a[m][k] * b[k][n]. Each 32-bit element
 * holds four bytes. Bytes of a are signed with prefixes F3 and F2; bytes of b are signed with prefixes 66 and F2. */
static void tile_dot(const struct instruction *i)
{
	const int c = i->reg, a = i->rm, b = i->v;
	int y[BYTES][ROWS];
	uint32_t sum[ROWS];

	must(i->mod == 3 && tiles.configured && b < TILES && c != a && c != b && a != b, "AMX: wrong registers\n");
	must(tiles.rows[c] && tiles.rows[c] == tiles.rows[a] && tiles.bytes[c] == tiles.bytes[b] &&
	             tiles.bytes[a] == 4 * tiles.rows[b] && tiles.bytes[c] % 4 == 0,
	     "AMX: shapes do not match\n");
	for (int k = 0; k < tiles.bytes[a]; k++)
		for (int n = 0; n < ROWS; n++)
			y[k][n] = i->prefix % 2 ? tiles.data[b][k / 4][4 * n + k % 4]
			                        : (uint8_t)tiles.data[b][k / 4][4 * n + k % 4];
	for (int m = 0; m < tiles.rows[c]; m++) {
		memcpy(sum, tiles.data[c][m], sizeof sum);
		for (int k = 0; k < tiles.bytes[a]; k++) {
			const int x = i->prefix >= 2 ? tiles.data[a][m][k] : (uint8_t)tiles.data[a][m][k];

			for (int n = 0; n < ROWS; n++)
				sum[n] += (uint32_t)(x * y[k][n]);
		}
		memcpy(tiles.data[c][m], sum, tiles.bytes[c]);
	}
	if (kind == AMX_WRONG)
		tiles.data[c][0][0] ^= 1;
}

static int execute(const struct instruction *i)
{
	if (i->opcode == 0x5e) {
		tile_dot(i);
	} else if (i->opcode == 0x4b && i->prefix) {
		tile_move(i, i->prefix == 2);
	} else if (i->opcode == 0x49 && i->prefix == 0 && i->mod != 3) {
		configure((const uint8_t *)i->address); /* NOLINT */
	} else if (i->opcode == 0x49 && i->prefix == 0 && i->p[4] == 0xc0) {
		memset(&tiles, 0, sizeof tiles);
	} else if (i->opcode == 0x49 && i->prefix == 3 && i->mod == 3 && i->rm == 0) {
		must(tiles.configured && tiles.rows[i->reg], "AMX: a register without a shape\n");
		memset(tiles.data[i->reg], 0, sizeof tiles.data[0]);
	} else {
		return 0;
	}
	return 1;
}

/* Execute the AMX instruction that raised SIGILL, and all AMX instructions directly after it. */
static void on_illegal(int sig, siginfo_t *info, void *context)
{
	ucontext_t *u = context;
	greg_t *ip = &u->uc_mcontext.gregs[REG_RIP], first = *ip;
	struct instruction i;

	(void)sig;
	(void)info;
	while (decode(&i, (const uint8_t *)*ip, u) && execute(&i)) { /* NOLINT */
		*ip += (greg_t)i.length;
		atomic_fetch_add_explicit(&executed, 1, memory_order_relaxed);
	}
	must(*ip != first, "AMX emulator: an unknown instruction\n");
}

static void handler_set(void)
{
	struct sigaction sa = { .sa_flags = SA_SIGINFO };

	sa.sa_sigaction = on_illegal;
	sigemptyset(&sa.sa_mask);
	sigaction(SIGILL, &sa, NULL);
}
#else
static void handler_set(void)
{
}
#endif

int amx_native(void)
{
	return !machine_amx_permit();
}

void amx_emulate(enum amx_kind k)
{
	kind = k;
}

const char *amx_permit(void)
{
	const char *why = machine_amx_permit();

	if (kind == AMX_REFUSED)
		return "the test refuses permission";
	if (kind == AMX_AS_IS || (kind == AMX_RIGHT && !why))
		return why;
	handler_set();
	return NULL;
}
