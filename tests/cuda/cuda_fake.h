/* tests/cuda/cuda_fake.h - properties of the machine that the CUDA runtime of cuda_fake.cc simulates. */
#ifndef WEIR_TEST_CUDA_FAKE_H
#define WEIR_TEST_CUDA_FAKE_H

#ifdef __cplusplus
extern "C" {
#endif

struct fake_cuda {
	int driver, runtime; /* CUDA versions, 13000 = 13.0; driver 0 = no driver */
	/* number of devices; 0: the runtime reports "no device"; -1: the call for the number fails */
	int devices;
	int major; /* major compute capability of device 0; for other devices it is 9 */
	/* 1: the program has code for the device; 0 or 2: it has none, which the runtime reports by one of two
	 * errors */
	int image;
	int graphs; /* 1: graphs work; 0: none can be built; 2: graphs cannot be updated */
	/* number of the launch that touches an illegal address, counted from now; 0 = no launch does */
	int break_launch;
	int workspace; /* 1: memory for cuBLAS's workspace can be allocated */
	int waits;     /* counter: how often a caller waited for a stream */
};
extern struct fake_cuda fake_cuda;
/* Set the properties of a driver and a device that weir can use. */
void fake_cuda_good(void);
/* Return the number of allocations, streams, graphs and handles that were not freed. */
int fake_cuda_held(void);
int fake_cuda_device(void); /* return the number of the device that was selected last */

#ifdef __cplusplus
}
#endif

#endif
