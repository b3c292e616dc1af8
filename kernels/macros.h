/* kernels/macros.h - MIN, MAX and LEN, for every house.
 *
 * MIN and MAX are the least and the greatest of two values; arguments are evaluated twice, and of equal values both
 * give the second.  LEN is the number of elements of an array. */
#ifndef WEIR_MACROS_H
#define WEIR_MACROS_H

#undef MIN /* sys/param.h has the same */
#undef MAX
#define MIN(a, b)  ((a) < (b) ? (a) : (b))
#define MAX(a, b)  ((a) > (b) ? (a) : (b))
#define LEN(array) (sizeof(array) / sizeof *(array))

#endif
