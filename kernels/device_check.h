/* kernels/device_check.h - checks a device: every operation, on random operands, against the CPU backend. */
#ifndef WEIR_DEVICE_CHECK_H
#define WEIR_DEVICE_CHECK_H

#include "kernels/backend.h"

/* Compute every operation of backend.h that the device offers, and four tokens of a tiny model of random weights, on
 * the device and on the CPU. Return 0 if all results agree, and 1 if a result differs. Return -1 if the device or the
 * CPU could not compute a result, for example because memory is short. If 1 or -1 is returned, set `why` to a text with
 * the name of the operation: "rope differs from the CPU's result (error 2)". */
int device_check(struct backend *, char why[160]);

#endif
