/* kernels/macros.h - MIN, MAX and LEN (number of elements of an array). MIN and MAX evaluate their arguments twice. If
 * the arguments are equal, they return the second one. */
#ifndef WEIR_MACROS_H
#define WEIR_MACROS_H

#undef MIN /* sys/param.h defines MIN and MAX, too */
#undef MAX
#define MIN(a, b)  ((a) < (b) ? (a) : (b))
#define MAX(a, b)  ((a) > (b) ? (a) : (b))
#define LEN(array) (sizeof(array) / sizeof *(array))

#endif
