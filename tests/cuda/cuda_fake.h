/* tests/cuda/cuda_fake.h - what the simulated CUDA runtime of cuda_fake.cc pretends to be. */
#ifndef WEIR_TEST_CUDA_FAKE_H
#define WEIR_TEST_CUDA_FAKE_H

#ifdef __cplusplus
extern "C" {
#endif

struct fake_cuda {
	int driver, runtime; /* CUDA versions, 13000 = 13.0; driver 0 = no driver */
	int devices;         /* number of devices; -1: asking for it fails, 0: "no device" */
	int major;           /* compute capability of device 0; other devices have 9 */
	/* 1: there is code for the device; 0 and 2: there is none, by two different errors of the runtime */
	int image;
	int graphs;       /* 1: graphs work; 0: none can be built; 2: graphs cannot be updated */
	int break_launch; /* the launch that touches an illegal address, counted from now; 0 = none */
	int workspace;    /* 1: cuBLAS gets its workspace */
	int waits;        /* how often a caller waited for a stream */
};
extern struct fake_cuda fake_cuda;
/* Pretend a driver and a device that are good enough. */
void fake_cuda_good(void);
/* Return the number of allocations, streams, graphs and handles that were not freed. */
int fake_cuda_held(void);
int fake_cuda_device(void); /* the device selected last */

#ifdef __cplusplus
}
#endif

#endif
