/* kernels/cpu/amx_tiles.h (private to the AMX code) - sets the shapes of a thread's tile registers. */
#ifndef WEIR_CPU_AMX_TILES_H
#define WEIR_CPU_AMX_TILES_H

#include <stdint.h>

/* The operand of the instruction ldtilecfg: the shapes of the tile registers. */
struct tile_config {
	uint8_t palette, start_row, zero[14]; /* the member `palette` must be 1 */
	uint16_t bytes[16];                   /* size of a row of each register in bytes */
	uint8_t rows[16];
} __attribute__((aligned(64)));

static inline void tiles_begin(const struct tile_config *t)
{
	__asm__ volatile("ldtilecfg %0" : : "m"(*t));
}

/* Clear the tile registers, so that the system need not save them when it switches threads. */
static inline void tiles_end(void)
{
	__asm__ volatile("tilerelease");
}

#endif
