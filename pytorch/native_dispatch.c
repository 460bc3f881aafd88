// Kernels of `aten::convolution` and its backward in libtorch's stable C interface.
//
// A call becomes words: sizes, strides, dtypes, options. Words that the table has are a call that
// PyTorch keeps, and go straight to its own composite kernel; all others go to `convir::convolution`
// and `convir::convolution_backward`, which are Python's.
//
// The table is read without a lock: entries are complete before the table points to them, and
// neither tables nor entries are freed.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t Word; // A StableIValue.
typedef void *Tensor;
typedef const int64_t *Sizes;

#define MOST_DIMS 8
#define MOST_WORDS 128

typedef struct {
  uint64_t hash;
  int64_t count; // Words.
  int64_t calls; // How often PyTorch's kernel ran.
  int64_t words[];
} Entry;

typedef struct {
  uint64_t mask;
  Entry *slots[];
} Table;

// One for each dispatch key; Python fills it.
typedef struct {
  int (*list_size)(void *, size_t *);
  int (*list_item)(void *, size_t, Word *);
  int (*delete_list)(void *);
  int (*delete_tensor)(Tensor);
  void (*free_box)(void *); // `operator delete`, of what an optional lies in.
  int (*defined)(Tensor, _Bool *);
  int (*dim)(Tensor, int64_t *);
  int (*sizes)(Tensor, int64_t **);
  int (*strides)(Tensor, int64_t **);
  int (*dtype)(Tensor, int32_t *);
  int (*device)(Tensor, int32_t *);
  int (*threads)(uint32_t *); // None on a GPU.
  int (*dispatch)(const char *, const char *, Word *, uint64_t);
  int (*forward)(Tensor, Tensor, Tensor *, Sizes, int64_t, Sizes, int64_t, Sizes, int64_t, int32_t,
                 Sizes, int64_t, int64_t, Tensor *);
  int (*backward)(Tensor, Tensor, Tensor, Sizes *, int64_t, Sizes, int64_t, Sizes, int64_t, Sizes,
                  int64_t, int32_t, Sizes, int64_t, int64_t, const int32_t *, int64_t, Tensor *,
                  Tensor *, Tensor *);
  void (*fail)(const char *, const char *, uint32_t, const char *); // Throws.
  uint64_t version;
  Table *tables[2]; // Forward, backward.
} Shim;

static Shim shims[2]; // CPU, CUDA.

Shim *native_shim(int which) { return &shims[which]; }

typedef struct {
  int64_t values[MOST_DIMS];
  int64_t count;
} List;

static int read_list(const Shim *shim, Word handle, List *list) {
  size_t count;
  if (shim->list_size((void *)handle, &count) || count > MOST_DIMS) return 1;
  for (size_t i = 0; i < count; i++) {
    Word value = 0;
    if (shim->list_item((void *)handle, i, &value)) return 1;
    list->values[i] = (int64_t)value;
  }
  list->count = (int64_t)count;
  return 0;
}

static int64_t *add_list(int64_t *at, const List *list) {
  *at++ = list->count;
  for (int64_t i = 0; i < list->count; i++) *at++ = list->values[i];
  return at;
}

static int64_t *add_tensor(const Shim *shim, int64_t *at, Tensor tensor) {
  int64_t dim, *sizes, *strides;
  int32_t dtype, device;
  if (shim->dim(tensor, &dim) || dim > MOST_DIMS || shim->sizes(tensor, &sizes) ||
      shim->strides(tensor, &strides) || shim->dtype(tensor, &dtype) ||
      shim->device(tensor, &device))
    return NULL;
  *at++ = dim | (int64_t)dtype << 8 | (int64_t)device << 32;
  memcpy(at, sizes, dim * sizeof *at);
  memcpy(at + dim, strides, dim * sizeof *at);
  return at + 2 * dim;
}

static uint64_t hash_of(const int64_t *words, int64_t count) {
  uint64_t hash = (uint64_t)count;
  for (int64_t i = 0; i < count; i++)
    hash = (hash ^ (uint64_t)words[i]) * 0x9e3779b97f4a7c15u, hash ^= hash >> 29;
  return hash;
}

static Entry **slot_of(Table *table, uint64_t hash, const int64_t *words, int64_t count) {
  uint64_t i = hash & table->mask;
  for (;; i = (i + 1) & table->mask) {
    Entry *entry = __atomic_load_n(&table->slots[i], __ATOMIC_ACQUIRE);
    if (!entry || (entry->hash == hash && entry->count == count &&
                   !memcmp(entry->words, words, count * sizeof *words)))
      return &table->slots[i];
  }
}

// The words of the call that went to Python, for `native_keep`.
static __thread int64_t words[MOST_WORDS];
static __thread int64_t word_count;

static Entry *kept(Shim *shim, int backward, int64_t *end) {
  word_count = end - words;
  Table *table = __atomic_load_n(&shim->tables[backward], __ATOMIC_ACQUIRE);
  return table ? *slot_of(table, hash_of(words, word_count), words, word_count) : NULL;
}

static int64_t *begin_words(const Shim *shim) {
  uint32_t threads = 0;
  if (shim->threads) shim->threads(&threads);
  words[0] = threads;
  word_count = 0;
  return words + 1;
}

// What Python's operator raised, which the C interface does not hand on.
static __thread char said[4096];

void native_say(const char *text) {
  strncpy(said, text, sizeof said - 1);
}

static void to_python(const Shim *shim, const char *name, Word *stack) {
  said[0] = 0;
  if (shim->dispatch(name, "", stack, shim->version))
    shim->fail("convolution", "convir", 0, said[0] ? said : "a convolution failed");
}

static void forward(Shim *shim, Word *stack) {
  List stride, padding, dilation, output_padding;
  int64_t *at = begin_words(shim);
  Tensor *bias = (Tensor *)stack[2];
  _Bool biased = 0;
  Entry *entry = NULL;
  if (bias && shim->defined(*bias, &biased)) biased = 0;
  if ((at = add_tensor(shim, at, (Tensor)stack[0])) &&
      (at = add_tensor(shim, at, (Tensor)stack[1])) &&
      (!biased || (at = add_tensor(shim, at, *bias))) && !read_list(shim, stack[3], &stride) &&
      !read_list(shim, stack[4], &padding) && !read_list(shim, stack[5], &dilation) &&
      !read_list(shim, stack[7], &output_padding)) {
    *at++ = biased | (int64_t)(stack[6] & 1) << 1 | (int64_t)stack[8] << 2;
    at = add_list(add_list(add_list(add_list(at, &stride), &padding), &dilation), &output_padding);
    entry = kept(shim, 0, at);
  }
  Tensor result = NULL;
  // What PyTorch's kernel refuses fails in Python again, which says why.
  if (!entry ||
      shim->forward((Tensor)stack[0], (Tensor)stack[1], bias, stride.values, stride.count,
                    padding.values, padding.count, dilation.values, dilation.count, stack[6] & 1,
                    output_padding.values, output_padding.count, (int64_t)stack[8], &result)) {
    to_python(shim, "convir::convolution", stack);
    return;
  }
  __atomic_fetch_add(&entry->calls, 1, __ATOMIC_RELAXED);
  shim->delete_tensor((Tensor)stack[0]);
  shim->delete_tensor((Tensor)stack[1]);
  if (bias) {
    shim->delete_tensor(*bias);
    shim->free_box(bias);
  }
  for (int i = 3; i < 8; i++)
    if (i != 6) shim->delete_list((void *)stack[i]);
  stack[0] = (Word)result;
}

static void backward(Shim *shim, Word *stack) {
  List bias_sizes = {.count = 0}, stride, padding, dilation, output_padding, mask;
  int64_t *at = begin_words(shim);
  Word *sizes = (Word *)stack[3];
  Entry *entry = NULL;
  if ((at = add_tensor(shim, at, (Tensor)stack[0])) &&
      (at = add_tensor(shim, at, (Tensor)stack[1])) &&
      (at = add_tensor(shim, at, (Tensor)stack[2])) &&
      !(sizes && read_list(shim, *sizes, &bias_sizes)) && !read_list(shim, stack[4], &stride) &&
      !read_list(shim, stack[5], &padding) && !read_list(shim, stack[6], &dilation) &&
      !read_list(shim, stack[8], &output_padding) && !read_list(shim, stack[10], &mask)) {
    *at++ = (sizes != NULL) | (int64_t)(stack[7] & 1) << 1 | (int64_t)stack[9] << 2;
    at = add_list(add_list(add_list(add_list(at, &stride), &padding), &dilation), &output_padding);
    at = add_list(add_list(at, &mask), &bias_sizes);
    entry = kept(shim, 1, at);
  }
  Tensor results[3] = {NULL, NULL, NULL};
  int32_t wanted[MOST_DIMS];
  for (int64_t i = 0; entry && i < mask.count; i++) wanted[i] = mask.values[i] & 1;
  Sizes bias = bias_sizes.values;
  if (!entry || shim->backward(
      (Tensor)stack[0], (Tensor)stack[1], (Tensor)stack[2], sizes ? &bias : NULL, bias_sizes.count,
      stride.values, stride.count, padding.values, padding.count, dilation.values, dilation.count,
      stack[7] & 1, output_padding.values, output_padding.count, (int64_t)stack[9], wanted,
      mask.count, &results[0], &results[1], &results[2])) {
    to_python(shim, "convir::convolution_backward", stack);
    return;
  }
  __atomic_fetch_add(&entry->calls, 1, __ATOMIC_RELAXED);
  for (int i = 0; i < 3; i++) shim->delete_tensor((Tensor)stack[i]);
  if (sizes) {
    shim->delete_list((void *)*sizes);
    shim->free_box(sizes);
  }
  for (int i = 4; i < 11; i++)
    if (i != 7 && i != 9) shim->delete_list((void *)stack[i]);
  for (int i = 0; i < 3; i++) stack[i] = (Word)results[i];
}

void native_cpu_forward(Word *stack, uint64_t i, uint64_t o) { forward(&shims[0], stack); }
void native_cpu_backward(Word *stack, uint64_t i, uint64_t o) { backward(&shims[0], stack); }
void native_cuda_forward(Word *stack, uint64_t i, uint64_t o) { forward(&shims[1], stack); }
void native_cuda_backward(Word *stack, uint64_t i, uint64_t o) { backward(&shims[1], stack); }

// Before Python asks anything else of PyTorch: the words of the call that it was called for.
int64_t native_words(int64_t *into) {
  memcpy(into, words, word_count * sizeof *words);
  return word_count;
}

// Where the calls of an entry are counted. The caller holds a lock.
int64_t *native_keep(int which, int backward, const int64_t *key, int64_t count) {
  Shim *shim = &shims[which];
  Table *table = shim->tables[backward];
  uint64_t used = 0, hash = hash_of(key, count);
  for (uint64_t i = 0; table && i <= table->mask; i++) used += !!table->slots[i];
  if (!table || 2 * used > table->mask) {
    uint64_t size = table ? 2 * (table->mask + 1) : 256;
    Table *grown = calloc(1, sizeof *grown + size * sizeof(Entry *));
    grown->mask = size - 1;
    for (uint64_t i = 0; table && i <= table->mask; i++) {
      Entry *entry = table->slots[i];
      if (entry) *slot_of(grown, entry->hash, entry->words, entry->count) = entry;
    }
    __atomic_store_n(&shim->tables[backward], table = grown, __ATOMIC_RELEASE);
  }
  Entry **slot = slot_of(table, hash, key, count);
  if (!*slot) {
    Entry *entry = malloc(sizeof *entry + count * sizeof *key);
    entry->hash = hash, entry->count = count, entry->calls = 0;
    memcpy(entry->words, key, count * sizeof *key);
    __atomic_store_n(slot, entry, __ATOMIC_RELEASE);
  }
  return &(*slot)->calls;
}

void native_forget(void) {
  for (int i = 0; i < 4; i++) __atomic_store_n(&shims[i >> 1].tables[i & 1], NULL, __ATOMIC_RELEASE);
}
