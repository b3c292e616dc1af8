/* tests/cuda/cuda_fake.h - what the simulated CUDA runtime of cuda_fake.cc pretends to be. */
#ifndef WEIR_TEST_CUDA_FAKE_H
#define WEIR_TEST_CUDA_FAKE_H

#ifdef __cplusplus
extern "C" {
#endif

struct fake_cuda {
	int driver, runtime; /* 13000 = 13.0; driver 0 = none */
	int devices;         /* -1: asking for them fails, 0: "no device" */
	int major;           /* compute capability of device 0; all others have 9 */
	int image;           /* is there code for the device?  2: no, in the other words of the runtime */
	int graphs;          /* can graphs be had? 2: but they cannot be updated */
	int break_launch;    /* so many launches from now one touches an illegal address; 0 = never */
	int workspace;       /* is there memory for cuBLAS? */
	int waits;           /* how often a stream was waited for */
};
extern struct fake_cuda fake_cuda;
/* A driver and a device that do. */
void fake_cuda_good(void);
/* What was taken and not given back: memory, streams, graphs, handles. */
int fake_cuda_held(void);
int fake_cuda_device(void); /* that was chosen last */

#ifdef __cplusplus
}
#endif

#endif
