/* tests/cuda/emulator/host.cuh - CUDA's language for a plain C++17 compiler: kernels run on the processor, for
 * tests.
 *
 * A thread of a block is a fiber. One fiber runs at a time (host_run.cc), until it must wait. At __syncthreads() it
 * waits for all threads of the block that have not ended; at a *_sync operation it waits for the lanes of its mask.
 * - A missing barrier gives wrong results: shared memory contains garbage at first, and the order of warps, lanes and
 *   blocks changes from launch to launch.
 * - Errors that would hang a device are reported: a wait for lanes that have ended or wait at another place, a mask
 *   without the calling lane, a value read from a lane outside of the mask.
 * - An asynchronous copy (cp.async) completes when its thread waits for it, not earlier.
 * - Rounding differs from a device in __expf and its relatives, which are exact here. */
#ifndef WEIR_CUDA_HOST_CUH
#define WEIR_CUDA_HOST_CUH

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))

/* ---- vectors ---- */

#define HOST_VECTOR2(T, name, align)                                                                                   \
	struct __align__(align) name                                                                                   \
	{                                                                                                              \
		T x, y;                                                                                                \
	};                                                                                                             \
	static inline name make_##name(T x, T y)                                                                       \
	{                                                                                                              \
		name v;                                                                                                \
		v.x = x;                                                                                               \
		v.y = y;                                                                                               \
		return v;                                                                                              \
	}
#define HOST_VECTOR3(T, name)                                                                                          \
	struct name {                                                                                                  \
		T x, y, z;                                                                                             \
	};                                                                                                             \
	static inline name make_##name(T x, T y, T z)                                                                  \
	{                                                                                                              \
		name v;                                                                                                \
		v.x = x;                                                                                               \
		v.y = y;                                                                                               \
		v.z = z;                                                                                               \
		return v;                                                                                              \
	}
#define HOST_VECTOR4(T, name, align)                                                                                   \
	struct __align__(align) name                                                                                   \
	{                                                                                                              \
		T x, y, z, w;                                                                                          \
	};                                                                                                             \
	static inline name make_##name(T x, T y, T z, T w)                                                             \
	{                                                                                                              \
		name v;                                                                                                \
		v.x = x;                                                                                               \
		v.y = y;                                                                                               \
		v.z = z;                                                                                               \
		v.w = w;                                                                                               \
		return v;                                                                                              \
	}
HOST_VECTOR2(signed char, char2, 2)
HOST_VECTOR2(unsigned char, uchar2, 2)
HOST_VECTOR2(short, short2, 4)
HOST_VECTOR2(unsigned short, ushort2, 4)
HOST_VECTOR2(int, int2, 8)
HOST_VECTOR2(unsigned, uint2, 8)
HOST_VECTOR2(float, float2, 8)
HOST_VECTOR2(long long, longlong2, 16)
HOST_VECTOR2(unsigned long long, ulonglong2, 16)
HOST_VECTOR2(double, double2, 16)
HOST_VECTOR3(int, int3)
HOST_VECTOR3(unsigned, uint3)
HOST_VECTOR3(float, float3)
HOST_VECTOR4(signed char, char4, 4)
HOST_VECTOR4(unsigned char, uchar4, 4)
HOST_VECTOR4(short, short4, 8)
HOST_VECTOR4(unsigned short, ushort4, 8)
HOST_VECTOR4(int, int4, 16)
HOST_VECTOR4(unsigned, uint4, 16)
HOST_VECTOR4(float, float4, 16)
struct dim3 {
	unsigned x, y, z;
	constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c)
	{
	}
};

/* ---- where a thread is ---- */

/* With the TLS model initial-exec, an access needs no function call, even in a library that dlopen() loads. */
#define HOST_THREAD __attribute__((tls_model("initial-exec"))) __thread
extern HOST_THREAD uint3 threadIdx, blockIdx, blockDim, gridDim;
enum { warpSize = 32 };

/* ---- shared memory ---- */

/* Return the address of a shared variable, the same for every thread of a block. key: identifies the variable. */
void *host_shared(const void *key, size_t size, size_t align);
void *host_shared_dynamic(void);
#define SHARED(type, name, size)                                                                                       \
	typedef type host_type_##name size;                                                                            \
	static char host_key_##name;                                                                                   \
	host_type_##name &name = *(host_type_##name *)host_shared(&host_key_##name, sizeof(host_type_##name),          \
	                                                          alignof(host_type_##name))
#define SHARED_DYNAMIC(type, name) type *name = (type *)host_shared_dynamic()

/* ---- barriers and warps ---- */

enum host_op {
	HOST_SYNCWARP,
	HOST_SHFL,
	HOST_SHFL_XOR,
	HOST_SHFL_UP,
	HOST_SHFL_DOWN,
	HOST_BALLOT,
	HOST_MATCH_ANY,
	HOST_REDUCE_ADD,
	HOST_REDUCE_MIN,
	HOST_REDUCE_MAX,
	HOST_REDUCE_UMIN,
	HOST_REDUCE_UMAX,
	HOST_REDUCE_AND,
	HOST_REDUCE_OR,
	HOST_REDUCE_XOR
};
/* Wait for all threads of the block that have not ended. Return the number of these threads whose p is not 0. */
int host_barrier(int p, int *all, const char *file, int line);
uint64_t host_warp(enum host_op, unsigned mask, uint64_t value, int arg, int width, const char *file, int line);

#define HOST_AT const char *file = __builtin_FILE(), int line = __builtin_LINE()
static inline void __syncthreads(HOST_AT)
{
	host_barrier(0, NULL, file, line);
}
static inline int __syncthreads_count(int p, HOST_AT)
{
	return host_barrier(p, NULL, file, line);
}
static inline int __syncthreads_or(int p, HOST_AT)
{
	return host_barrier(p, NULL, file, line) > 0;
}
static inline int __syncthreads_and(int p, HOST_AT)
{
	int all, n = host_barrier(p, &all, file, line);
	return n == all;
}
static inline void __syncwarp(unsigned mask = 0xffffffffu, HOST_AT)
{
	host_warp(HOST_SYNCWARP, mask, 0, 0, 32, file, line);
}

template <class T>
static inline T host_shuffle(enum host_op op, unsigned mask, T x, int arg, int width, const char *file, int line)
{
	uint64_t v = 0;

	static_assert(sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 2, 4 or 8 bytes");
	memcpy(&v, &x, sizeof x);
	v = host_warp(op, mask, v, arg, width, file, line);
	memcpy(&x, &v, sizeof x);
	return x;
}
template <class T> static inline T __shfl_sync(unsigned mask, T x, int lane, int width = 32, HOST_AT)
{
	return host_shuffle(HOST_SHFL, mask, x, lane, width, file, line);
}
template <class T> static inline T __shfl_xor_sync(unsigned mask, T x, int lanes, int width = 32, HOST_AT)
{
	return host_shuffle(HOST_SHFL_XOR, mask, x, lanes, width, file, line);
}
template <class T> static inline T __shfl_up_sync(unsigned mask, T x, unsigned by, int width = 32, HOST_AT)
{
	return host_shuffle(HOST_SHFL_UP, mask, x, (int)by, width, file, line);
}
template <class T> static inline T __shfl_down_sync(unsigned mask, T x, unsigned by, int width = 32, HOST_AT)
{
	return host_shuffle(HOST_SHFL_DOWN, mask, x, (int)by, width, file, line);
}
static inline unsigned __ballot_sync(unsigned mask, int p, HOST_AT)
{
	return (unsigned)host_warp(HOST_BALLOT, mask, p != 0, 0, 32, file, line);
}
static inline int __any_sync(unsigned mask, int p, HOST_AT)
{
	return host_warp(HOST_BALLOT, mask, p != 0, 0, 32, file, line) != 0;
}
static inline int __all_sync(unsigned mask, int p, HOST_AT)
{
	return host_warp(HOST_BALLOT, mask, p != 0, 0, 32, file, line) == mask;
}
template <class T> static inline unsigned __match_any_sync(unsigned mask, T x, HOST_AT)
{
	uint64_t v = 0;

	memcpy(&v, &x, sizeof x);
	return (unsigned)host_warp(HOST_MATCH_ANY, mask, v, 0, 32, file, line);
}
#define HOST_REDUCE(name, T, op)                                                                                       \
	static inline T name(unsigned mask, T x, HOST_AT)                                                              \
	{                                                                                                              \
		return (T)host_warp(op, mask, (unsigned)x, 0, 32, file, line);                                         \
	}
HOST_REDUCE(__reduce_add_sync, unsigned, HOST_REDUCE_ADD)
HOST_REDUCE(__reduce_add_sync, int, HOST_REDUCE_ADD)
HOST_REDUCE(__reduce_min_sync, unsigned, HOST_REDUCE_UMIN)
HOST_REDUCE(__reduce_min_sync, int, HOST_REDUCE_MIN)
HOST_REDUCE(__reduce_max_sync, unsigned, HOST_REDUCE_UMAX)
HOST_REDUCE(__reduce_max_sync, int, HOST_REDUCE_MAX)
HOST_REDUCE(__reduce_and_sync, unsigned, HOST_REDUCE_AND)
HOST_REDUCE(__reduce_or_sync, unsigned, HOST_REDUCE_OR)
HOST_REDUCE(__reduce_xor_sync, unsigned, HOST_REDUCE_XOR)

/* Return an array with six words for each lane of the caller's warp. The lanes exchange the operands of emulated matrix
 * instructions in it. */
uint32_t (*host_lanes(void))[6];

/* Copy 16 bytes to shared memory asynchronously, in groups, as cp.async does. If `there` is 0, write zeros instead. A
 * copy that its thread does not wait for is never made. */
void host_copy(void *shared, const void *from, int there);
void host_copies_end(void);
void host_copies_wait(unsigned left);

static inline void __threadfence(void)
{
}
static inline void __threadfence_block(void)
{
}

/* ---- atomics: only one fiber runs at a time, so plain arithmetic is atomic ---- */

#define HOST_ATOMIC(name, expression)                                                                                  \
	template <class T> static inline T name(T *p, T v)                                                             \
	{                                                                                                              \
		T old = *p;                                                                                            \
		*p = (expression);                                                                                     \
		return old;                                                                                            \
	}
HOST_ATOMIC(host_atomic_add, (T)(old + v))
HOST_ATOMIC(host_atomic_sub, (T)(old - v))
HOST_ATOMIC(host_atomic_min, v < old ? v : old)
HOST_ATOMIC(host_atomic_max, v > old ? v : old)
HOST_ATOMIC(host_atomic_and, (T)(old &v))
HOST_ATOMIC(host_atomic_or, (T)(old | v))
HOST_ATOMIC(host_atomic_xor, (T)(old ^ v))
HOST_ATOMIC(host_atomic_exch, v)
#define HOST_ATOMIC_INT(name, fn)                                                                                      \
	static inline int name(int *p, int v)                                                                          \
	{                                                                                                              \
		return fn(p, v);                                                                                       \
	}                                                                                                              \
	static inline unsigned name(unsigned *p, unsigned v)                                                           \
	{                                                                                                              \
		return fn(p, v);                                                                                       \
	}                                                                                                              \
	static inline unsigned long long name(unsigned long long *p, unsigned long long v)                             \
	{                                                                                                              \
		return fn(p, v);                                                                                       \
	}
HOST_ATOMIC_INT(atomicAdd, host_atomic_add)
HOST_ATOMIC_INT(atomicMin, host_atomic_min)
HOST_ATOMIC_INT(atomicMax, host_atomic_max)
HOST_ATOMIC_INT(atomicAnd, host_atomic_and)
HOST_ATOMIC_INT(atomicOr, host_atomic_or)
HOST_ATOMIC_INT(atomicXor, host_atomic_xor)
HOST_ATOMIC_INT(atomicExch, host_atomic_exch)
static inline int atomicSub(int *p, int v)
{
	return host_atomic_sub(p, v);
}
static inline unsigned atomicSub(unsigned *p, unsigned v)
{
	return host_atomic_sub(p, v);
}
static inline float atomicExch(float *p, float v)
{
	return host_atomic_exch(p, v);
}
template <class T> static inline T host_atomic_cas(T *p, T compare, T v)
{
	T old = *p;
	if (old == compare)
		*p = v;
	return old;
}
static inline int atomicCAS(int *p, int c, int v)
{
	return host_atomic_cas(p, c, v);
}
static inline unsigned atomicCAS(unsigned *p, unsigned c, unsigned v)
{
	return host_atomic_cas(p, c, v);
}
static inline unsigned long long atomicCAS(unsigned long long *p, unsigned long long c, unsigned long long v)
{
	return host_atomic_cas(p, c, v);
}
static inline unsigned atomicInc(unsigned *p, unsigned most)
{
	unsigned old = *p;
	*p = old >= most ? 0 : old + 1;
	return old;
}

/* ---- bits ---- */

template <class To, class From> static inline To host_cast(From x)
{
	To y;

	static_assert(sizeof(To) == sizeof(From), "the same size");
	memcpy(&y, &x, sizeof y);
	return y;
}
static inline int __float_as_int(float x)
{
	return host_cast<int>(x);
}
static inline unsigned __float_as_uint(float x)
{
	return host_cast<unsigned>(x);
}
static inline float __int_as_float(int x)
{
	return host_cast<float>(x);
}
static inline float __uint_as_float(unsigned x)
{
	return host_cast<float>(x);
}
static inline int __popc(unsigned x)
{
	return __builtin_popcount(x);
}
static inline int __popcll(unsigned long long x)
{
	return __builtin_popcountll(x);
}
static inline int __clz(int x)
{
	return x ? __builtin_clz((unsigned)x) : 32;
}
static inline int __clzll(long long x)
{
	return x ? __builtin_clzll((unsigned long long)x) : 64;
}
static inline int __ffs(int x)
{
	return __builtin_ffs(x);
}
static inline int __ffsll(long long x)
{
	return __builtin_ffsll(x);
}
static inline unsigned __brev(unsigned x)
{
	unsigned y = 0;

	for (int i = 0; i < 32; i++)
		y |= (x >> i & 1u) << (31 - i);
	return y;
}
/* Byte i of the result is byte (s >> 4 i) & 7 of the eight bytes of a and b. If bit 3 of this nibble of s is set, it is
 * the sign of that byte instead, repeated in all bits. */
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned s)
{
	uint64_t v = (uint64_t)b << 32 | a;
	unsigned out = 0;

	for (int i = 0; i < 4; i++) {
		unsigned pick = s >> (4 * i) & 15u, byte = (unsigned)(v >> (8 * (pick & 7u))) & 255u;

		out |= (pick & 8u ? (byte & 128u ? 255u : 0u) : byte) << (8 * i);
	}
	return out;
}
static inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned n)
{
	return (unsigned)(((uint64_t)hi << 32 | lo) >> (n & 31));
}
static inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned n)
{
	return (unsigned)(((uint64_t)hi << 32 | lo) << (n & 31) >> 32);
}
static inline int __dp4a(int a, int b, int c)
{
	unsigned sum = (unsigned)c;

	for (int i = 0; i < 32; i += 8)
		sum += (unsigned)((int)(int8_t)((unsigned)a >> i) * (int)(int8_t)((unsigned)b >> i));
	return (int)sum;
}
static inline unsigned __dp4a(unsigned a, unsigned b, unsigned c)
{
	for (int i = 0; i < 32; i += 8)
		c += (a >> i & 255u) * (b >> i & 255u);
	return c;
}
/* Define an operation on two words that computes each byte of the result from the same byte of both words. */
#define HOST_BYTES(name, T, expression)                                                                                \
	static inline unsigned name(unsigned a, unsigned b)                                                            \
	{                                                                                                              \
		unsigned out = 0;                                                                                      \
		for (int i = 0; i < 32; i += 8) {                                                                      \
			int p = (T)(a >> i), q = (T)(b >> i);                                                          \
			out |= ((unsigned)(expression)&255u) << i;                                                     \
		}                                                                                                      \
		return out;                                                                                            \
	}
HOST_BYTES(__vadd4, uint8_t, p + q)
HOST_BYTES(__vsub4, uint8_t, p - q)
HOST_BYTES(__vaddss4, int8_t, p + q > 127 ? 127 : p + q < -128 ? -128 : p + q)
HOST_BYTES(__vsubss4, int8_t, p - q > 127 ? 127 : p - q < -128 ? -128 : p - q)
HOST_BYTES(__vcmpeq4, uint8_t, p == q ? 255 : 0)
HOST_BYTES(__vcmpne4, uint8_t, p != q ? 255 : 0)
HOST_BYTES(__vmaxs4, int8_t, p > q ? p : q)
HOST_BYTES(__vmins4, int8_t, p < q ? p : q)
static inline int __mulhi(int a, int b)
{
	return (int)((int64_t)a * b >> 32);
}
static inline unsigned __umulhi(unsigned a, unsigned b)
{
	return (unsigned)((uint64_t)a * b >> 32);
}

/* ---- loads and stores with a hint ---- */

#define HOST_LOAD(name)                                                                                                \
	template <class T> static inline T name(const T *p)                                                            \
	{                                                                                                              \
		return *p;                                                                                             \
	}
#define HOST_STORE(name)                                                                                               \
	template <class T> static inline void name(T *p, T v)                                                          \
	{                                                                                                              \
		*p = v;                                                                                                \
	}
HOST_LOAD(__ldg)
HOST_LOAD(__ldcs)
HOST_LOAD(__ldcg)
HOST_LOAD(__ldca)
HOST_LOAD(__ldlu)
HOST_LOAD(__ldcv)
HOST_STORE(__stcs)
HOST_STORE(__stcg)
HOST_STORE(__stwb)
HOST_STORE(__stwt)

/* ---- arithmetic ---- */

static inline int min(int a, int b)
{
	return a < b ? a : b;
}
static inline unsigned min(unsigned a, unsigned b)
{
	return a < b ? a : b;
}
static inline long min(long a, long b)
{
	return a < b ? a : b;
}
static inline unsigned long min(unsigned long a, unsigned long b)
{
	return a < b ? a : b;
}
static inline long long min(long long a, long long b)
{
	return a < b ? a : b;
}
static inline unsigned long long min(unsigned long long a, unsigned long long b)
{
	return a < b ? a : b;
}
static inline float min(float a, float b)
{
	return fminf(a, b);
}
static inline double min(double a, double b)
{
	return fmin(a, b);
}
static inline int max(int a, int b)
{
	return a > b ? a : b;
}
static inline unsigned max(unsigned a, unsigned b)
{
	return a > b ? a : b;
}
static inline long max(long a, long b)
{
	return a > b ? a : b;
}
static inline unsigned long max(unsigned long a, unsigned long b)
{
	return a > b ? a : b;
}
static inline long long max(long long a, long long b)
{
	return a > b ? a : b;
}
static inline unsigned long long max(unsigned long long a, unsigned long long b)
{
	return a > b ? a : b;
}
static inline float max(float a, float b)
{
	return fmaxf(a, b);
}
static inline double max(double a, double b)
{
	return fmax(a, b);
}

static inline float rsqrtf(float x)
{
	return 1.0f / sqrtf(x);
}
/* These are macros, because the C library has functions with these names. */
#define __expf(x)    expf(x)
#define __exp10f(x)  powf(10.0f, x)
#define __logf(x)    logf(x)
#define __log2f(x)   log2f(x)
#define __powf(x, y) powf(x, y)
#define __sinf(x)    sinf(x)
#define __cosf(x)    cosf(x)
static inline float __fdividef(float x, float y)
{
	return x / y;
}
static inline float __frcp_rn(float x)
{
	return 1.0f / x;
}
static inline float __fdiv_rn(float x, float y)
{
	return x / y;
}
static inline float __fsqrt_rn(float x)
{
	return sqrtf(x);
}
static inline float __frsqrt_rn(float x)
{
	return (float)(1.0 / sqrt((double)x));
}
static inline float __fmaf_rn(float x, float y, float z)
{
	return fmaf(x, y, z);
}
static inline float __fadd_rn(float x, float y)
{
	return x + y;
}
static inline float __fsub_rn(float x, float y)
{
	return x - y;
}
static inline float __fmul_rn(float x, float y)
{
	return x * y;
}
static inline float __saturatef(float x)
{
	return x > 0 ? x < 1 ? x : 1.0f : 0.0f;
}
static inline float __int2float_rn(int x)
{
	return (float)x;
}
static inline float __uint2float_rn(unsigned x)
{
	return (float)x;
}
/* Values out of range become the nearest integer, and NaN becomes 0. */
static inline int __float2int_rz(float x)
{
	return x != x ? 0 : x >= 2147483648.0f ? INT32_MAX : x < -2147483648.0f ? INT32_MIN : (int)x;
}
static inline int __float2int_rn(float x)
{
	return __float2int_rz(rintf(x));
}
static inline int __float2int_rd(float x)
{
	return __float2int_rz(floorf(x));
}
static inline int __float2int_ru(float x)
{
	return __float2int_rz(ceilf(x));
}
static inline unsigned __float2uint_rn(float x)
{
	return !(x > 0) ? 0u : x >= 4294967296.0f ? UINT32_MAX : (unsigned)rintf(x);
}
static inline unsigned __float2uint_rz(float x)
{
	return !(x > 0) ? 0u : x >= 4294967296.0f ? UINT32_MAX : (unsigned)x;
}

/* ---- half floats ---- */

struct __half {
	unsigned short bits;
};
typedef __half half;
struct __align__(4) __half2
{
	__half x, y;
};
typedef __half2 half2;
struct __nv_bfloat16 {
	unsigned short bits;
};
struct __align__(4) __nv_bfloat162
{
	__nv_bfloat16 x, y;
};

static inline __half __ushort_as_half(unsigned short b)
{
	__half h;
	h.bits = b;
	return h;
}
static inline unsigned short __half_as_ushort(__half h)
{
	return h.bits;
}
static inline float __half2float(__half h)
{
	unsigned sign = (unsigned)(h.bits & 0x8000u) << 16, rest = (unsigned)(h.bits & 0x7fffu) << 13;

	/* This product is exact, even for subnormal values. */
	if (rest >= 0x0f800000u)
		return host_cast<float>(sign | 0x7f800000u | rest);
	return host_cast<float>(sign | host_cast<unsigned>(host_cast<float>(rest) * 5.192296858534828e33f));
}
static inline __half __float2half(float f)
{
	unsigned u = host_cast<unsigned>(f), sign = u >> 16 & 0x8000u, a = u & 0x7fffffffu;

	if (a > 0x7f800000u)
		return __ushort_as_half(0x7fff);
	if (a >= 0x477ff000u) /* 65520 or more rounds to infinity */
		return __ushort_as_half((unsigned short)(sign | 0x7c00u));
	if (a < 0x38800000u) { /* subnormal result: the addition of 0.5 rounds x to the precision of the result */
		float x = host_cast<float>(a) + 0.5f;

		return __ushort_as_half((unsigned short)(sign | (host_cast<unsigned>(x) - 0x3f000000u)));
	}
	a += 0xfffu + (a >> 13 & 1u) - 0x38000000u;
	return __ushort_as_half((unsigned short)(sign | a >> 13));
}
static inline __half __float2half_rn(float f)
{
	return __float2half(f);
}
static inline float2 __half22float2(__half2 h)
{
	return make_float2(__half2float(h.x), __half2float(h.y));
}
static inline __half2 __halves2half2(__half a, __half b)
{
	__half2 h;
	h.x = a;
	h.y = b;
	return h;
}
static inline __half2 __half2half2(__half a)
{
	return __halves2half2(a, a);
}
static inline __half2 __floats2half2_rn(float a, float b)
{
	return __halves2half2(__float2half(a), __float2half(b));
}
static inline __half2 __float22half2_rn(float2 a)
{
	return __floats2half2_rn(a.x, a.y);
}
static inline __half2 __float2half2_rn(float a)
{
	return __floats2half2_rn(a, a);
}
static inline __half __low2half(__half2 h)
{
	return h.x;
}
static inline __half __high2half(__half2 h)
{
	return h.y;
}
static inline float __low2float(__half2 h)
{
	return __half2float(h.x);
}
static inline float __high2float(__half2 h)
{
	return __half2float(h.y);
}
static inline __half __int2half_rn(int x)
{
	return __float2half((float)x);
}
static inline __half __hadd(__half a, __half b)
{
	return __float2half(__half2float(a) + __half2float(b));
}
static inline __half __hsub(__half a, __half b)
{
	return __float2half(__half2float(a) - __half2float(b));
}
static inline __half __hmul(__half a, __half b)
{
	return __float2half(__half2float(a) * __half2float(b));
}
static inline __half __hfma(__half a, __half b, __half c)
{
	/* In double, product and sum together are rounded at most once, and so far behind the bits of a half that the
	 * result does not change. */
	return __float2half((float)((double)__half2float(a) * __half2float(b) + __half2float(c)));
}
static inline __half2 __hadd2(__half2 a, __half2 b)
{
	return __halves2half2(__hadd(a.x, b.x), __hadd(a.y, b.y));
}
static inline __half2 __hsub2(__half2 a, __half2 b)
{
	return __halves2half2(__hsub(a.x, b.x), __hsub(a.y, b.y));
}
static inline __half2 __hmul2(__half2 a, __half2 b)
{
	return __halves2half2(__hmul(a.x, b.x), __hmul(a.y, b.y));
}
static inline __half2 __hfma2(__half2 a, __half2 b, __half2 c)
{
	return __halves2half2(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y));
}

static inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short b)
{
	__nv_bfloat16 h;
	h.bits = b;
	return h;
}
static inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 h)
{
	return h.bits;
}
static inline float __bfloat162float(__nv_bfloat16 h)
{
	return host_cast<float>((unsigned)h.bits << 16);
}
static inline __nv_bfloat16 __float2bfloat16(float f)
{
	unsigned u = host_cast<unsigned>(f);

	if ((u & 0x7fffffffu) > 0x7f800000u)
		return __ushort_as_bfloat16(0x7fff);
	return __ushort_as_bfloat16((unsigned short)((u + 0x7fffu + (u >> 16 & 1u)) >> 16));
}
static inline __nv_bfloat16 __float2bfloat16_rn(float f)
{
	return __float2bfloat16(f);
}
static inline float2 __bfloat1622float2(__nv_bfloat162 h)
{
	return make_float2(__bfloat162float(h.x), __bfloat162float(h.y));
}
static inline __nv_bfloat162 __floats2bfloat162_rn(float a, float b)
{
	__nv_bfloat162 h;

	h.x = __float2bfloat16(a);
	h.y = __float2bfloat16(b);
	return h;
}

#endif
