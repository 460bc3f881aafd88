// Kernels of `aten::convolution` and `aten::convolution_backward` that know most calls by heart.
//
// A call becomes words: sizes, strides, dtypes, options. Words that a table has are a call that was
// decided: PyTorch's composite kernel runs it, or the program of the entry does, on a GPU on the
// current stream. All other calls go to Python (`../dispatch.py`), which decides, and puts them here.
//
// Compiled for the PyTorch that is installed, against its own headers (`dispatch.py`).
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <shared_mutex>
#include <tuple>
#include <unordered_map>
#include <vector>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/convolution_backward_ops.h>
#include <ATen/ops/convolution_ops.h>
#include <ATen/ops/empty_strided_ops.h>
#include <ATen/ops/sum_ops.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

namespace {

using at::Tensor;
using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::SymIntArrayRef;
using Words = std::vector<int64_t>;
using Bias = std::optional<Tensor>;

constexpr int kMapBytes = 128; // A CUtensorMap.
constexpr int kMaps = 8;       // Of a launch: more of them lie on the heap.
constexpr size_t kLine = 64;   // What memory on the host begins with: a cache line.

// Functions of the CUDA driver, and PyTorch's current stream; Python looks them up.
struct Driver {
  int (*launch)(void *function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                unsigned shared, void *stream, void **values, void **extra);
  int (*launch_cooperative)(void *function, unsigned, unsigned, unsigned, unsigned, unsigned,
                            unsigned, unsigned shared, void *stream, void **values);
  int (*fill)(uint64_t to, unsigned char byte, size_t bytes, void *stream);
  int (*copy)(uint64_t to, uint64_t from, size_t bytes, void *stream);
  int (*place_map)(void *map, void *address);
  int (*stream)(int32_t device, void **stream);
};
Driver driver;

struct Place {
  int64_t memory, offset;
  uint64_t in(const uint64_t *memories) const { return memories[memory] + offset; }
};

struct alignas(64) Map {
  char bytes[kMapBytes];
};

struct Value {
  enum Kind : int64_t { kAddress, kMap, kNumber } kind;
  Place place;
  int64_t number;
  Map map; // For another address.
};

// A launch of the thread pool, as it reads it.
struct HostLaunch {
  int64_t kernel, arguments, items, chunk, workers;
};

// Launches on the host, one after the other.
struct Run {
  void (*run)(void *pool, void *seats, int64_t workers, const HostLaunch *launches, int64_t count);
  void *pool, *seats;
  int64_t workers;
  std::vector<HostLaunch> launches; // Their arguments: where these begin in `places`.
  std::vector<Place> places;
};

struct Step {
  enum Kind : int64_t { kZero, kCopy, kLaunch, kRun } kind;
  Place to, from;
  int64_t bytes;
  void *function;
  std::array<unsigned, 6> shape; // Grid and block.
  unsigned shared;
  bool cooperative;
  std::vector<Value> values;
  size_t maps; // How many of the values are maps.
  Run host;
};

// A result, what is computed for it, and memories that are always the same.
struct Program {
  at::ScalarType dtype;
  bool swaps_operands;
  std::vector<c10::SymInt> sizes, strides;
  int64_t alignment, workspace_bytes;
  std::vector<std::pair<bool, int64_t>> memories; // Bytes into the workspace, or an address.
  std::vector<Step> steps;
};

struct Entry {
  std::array<std::unique_ptr<Program>, 2> programs; // Forward: one. Backward: of dx, and of dw.
  std::atomic<int64_t> calls{0};
};

struct Hash {
  size_t operator()(const Words &words) const {
    uint64_t hash = words.size();
    for (int64_t word : words)
      hash = (hash ^ static_cast<uint64_t>(word)) * 0x9e3779b97f4a7c15u, hash ^= hash >> 29;
    return hash;
  }
};

// A program runs while its table is read, so that nobody who clears the table frees its kernels
// meanwhile. Entries are never freed: Python reads their counters.
struct Table {
  std::shared_mutex mutex;
  std::unordered_map<Words, Entry *, Hash> forward, backward;
  int64_t epoch = 0;
};
Table *table = new Table;

// The thread's last call, and when it was looked up.
thread_local Words asked;
thread_local int64_t asked_epoch;

void add(at::IntArrayRef list) {
  asked.push_back(static_cast<int64_t>(list.size()));
  asked.insert(asked.end(), list.begin(), list.end());
}

void add(const Tensor &tensor) {
  asked.push_back(static_cast<int64_t>(tensor.scalar_type()) | int64_t{tensor.get_device()} << 8);
  add(tensor.sizes());
  asked.insert(asked.end(), tensor.strides().begin(), tensor.strides().end());
}

// What the choice of a kernel depends on beside the call. Throws where PyTorch's flags disagree.
int64_t flags(const Tensor &x) {
  if (x.is_cpu()) return int64_t{1} << 32 | at::get_num_threads();
  return x.scalar_type() == at::kFloat && at::globalContext().allowTF32CuDNN();
}

void begin(const Tensor &x) {
  asked.clear();
  asked.push_back(flags(x));
}

void add_options(SymIntArrayRef stride, SymIntArrayRef padding, SymIntArrayRef dilation,
                 bool transposed, SymIntArrayRef output_padding, const c10::SymInt &groups) {
  for (const auto &list : {stride, padding, dilation, output_padding})
    add(C10_AS_INTARRAYREF_SLOW(list));
  asked.push_back(groups.guard_int(__FILE__, __LINE__) << 1 | transposed);
}

Entry *known(const std::unordered_map<Words, Entry *, Hash> &entries) {
  asked_epoch = table->epoch;
  const auto found = entries.find(asked);
  return found == entries.end() ? nullptr : found->second;
}

Tensor new_tensor(SymIntArrayRef sizes, SymIntArrayRef strides, at::ScalarType dtype,
                  at::Device device) {
  const DispatchKeySet keys(device.is_cpu() ? DispatchKey::CPU : DispatchKey::CUDA);
  return at::_ops::empty_strided::redispatch(keys, sizes, strides, dtype, std::nullopt, device,
                                             std::nullopt);
}

bool launch(const Step &step, const uint64_t *memories, void *stream) {
  const size_t count = step.values.size();
  c10::SmallVector<uint64_t, 16> numbers(count);
  c10::SmallVector<void *, 16> values(count);
  Map few[kMaps];
  std::vector<Map> many(step.maps > kMaps ? step.maps : 0);
  Map *map = many.empty() ? few : many.data();
  for (size_t i = 0; i < count; i++) {
    const Value &value = step.values[i];
    values[i] = &numbers[i];
    if (value.kind == Value::kNumber) {
      numbers[i] = static_cast<uint64_t>(value.number);
    } else if (value.kind == Value::kAddress) {
      numbers[i] = value.place.in(memories);
    } else {
      values[i] = std::memcpy(map++, &value.map, kMapBytes);
      if (driver.place_map(values[i], reinterpret_cast<void *>(value.place.in(memories))))
        return false;
    }
  }
  const auto &[gx, gy, gz, bx, by, bz] = step.shape;
  return step.cooperative ? !driver.launch_cooperative(step.function, gx, gy, gz, bx, by, bz,
                                                       step.shared, stream, values.data())
                          : !driver.launch(step.function, gx, gy, gz, bx, by, bz, step.shared,
                                           stream, values.data(), nullptr);
}

void run_here(const Run &run, const uint64_t *memories) {
  c10::SmallVector<uint64_t, 32> pointers;
  for (const Place &place : run.places) pointers.push_back(place.in(memories));
  c10::SmallVector<HostLaunch, 8> launches(run.launches.begin(), run.launches.end());
  for (HostLaunch &each : launches)
    each.arguments = reinterpret_cast<int64_t>(pointers.data() + each.arguments);
  run.run(run.pool, run.seats, run.workers, launches.data(),
          static_cast<int64_t>(launches.size()));
}

bool enqueue(const Step &step, const uint64_t *memories, void *stream) {
  if (step.kind == Step::kLaunch) return launch(step, memories, stream);
  if (step.kind == Step::kRun) return run_here(step.host, memories), true;
  const uint64_t to = step.to.in(memories);
  if (step.kind == Step::kZero) return !driver.fill(to, 0, step.bytes, stream);
  const uint64_t from = step.from.in(memories);
  return to == from || !driver.copy(to, from, step.bytes, stream);
}

// The workspace of a call on the host: the thread's, which the next call uses again.
uint64_t arena_here(size_t bytes) {
  thread_local std::vector<char> kept;
  if (kept.size() < bytes + kLine) {
    kept = {}; // Never both.
    kept.resize(bytes + kLine);
  }
  return (reinterpret_cast<uint64_t>(kept.data()) + kLine - 1) / kLine * kLine;
}

// The result of a program; undefined where Python is to run it.
Tensor enqueued(const Program &program, const Tensor &a, const Tensor &b, const Tensor *bias) {
  const c10::DeviceGuard guard(a.device());
  c10::SmallVector<uint64_t, 16> memories;
  uint64_t bits = 0;
  const Tensor *operands[] = {program.swaps_operands ? &b : &a, program.swaps_operands ? &a : &b,
                              bias};
  for (const Tensor *operand : operands) {
    if (!operand) continue;
    memories.push_back(reinterpret_cast<uint64_t>(operand->const_data_ptr()));
    bits |= memories.back();
  }
  void *stream = nullptr;
  if (bits & (program.alignment - 1)) return {};
  if (!a.is_cpu() && driver.stream(a.get_device(), &stream)) return {};
  const Tensor out = new_tensor(program.sizes, program.strides, program.dtype, a.device());
  memories.push_back(reinterpret_cast<uint64_t>(out.data_ptr()));
  Tensor workspace; // The allocator gives memory back in the order of the stream.
  uint64_t arena = 0;
  if (program.workspace_bytes && a.is_cpu()) {
    arena = arena_here(program.workspace_bytes);
  } else if (program.workspace_bytes) {
    const c10::SymInt bytes = program.workspace_bytes, one = 1;
    workspace = new_tensor(bytes, one, at::kByte, a.device());
    arena = reinterpret_cast<uint64_t>(workspace.data_ptr());
  }
  memories.push_back(arena);
  for (const auto &[is_offset, where] : program.memories)
    memories.push_back((is_offset ? arena : 0) + where);
  for (const Step &step : program.steps)
    if (!enqueue(step, memories.data(), stream)) return {};
  return out;
}

// The same. Where memory is short Python meets that as well, and gives the convolution back to
// PyTorch's kernel, which may need less.
Tensor run(const Program &program, const Tensor &a, const Tensor &b, const Tensor *bias) {
  try {
    return enqueued(program, a, b, bias);
  } catch (const c10::OutOfMemoryError &) {
    return {};
  } catch (const std::bad_alloc &) {
    return {};
  }
}

// Keys of backends that nobody has: PyTorch's composite kernel, and Python's.
constexpr DispatchKeySet kComposite(DispatchKey::Lazy);

DispatchKeySet python(const Tensor &x) {
  return DispatchKeySet(x.is_cpu() ? DispatchKey::PrivateUse2 : DispatchKey::PrivateUse3);
}

Tensor convolution(DispatchKeySet, const Tensor &x, const Tensor &w, const Bias &bias,
                   SymIntArrayRef stride, SymIntArrayRef padding, SymIntArrayRef dilation,
                   bool transposed, SymIntArrayRef output_padding, c10::SymInt groups) {
  const Tensor *biased = bias.has_value() && bias->defined() ? &*bias : nullptr;
  DispatchKeySet keys = python(x);
  begin(x);
  add(x);
  add(w);
  if (biased) add(*biased);
  add_options(stride, padding, dilation, transposed, output_padding, groups);
  {
    const std::shared_lock lock(table->mutex);
    if (Entry *entry = known(table->forward)) {
      Tensor y;
      if (!entry->programs[0]) keys = kComposite;
      else y = run(*entry->programs[0], x, w, biased);
      if (y.defined() || keys == kComposite) entry->calls.fetch_add(1, std::memory_order_relaxed);
      if (y.defined()) return y;
    }
  }
  return at::_ops::convolution::redispatch(keys, x, w, bias, stride, padding, dilation, transposed,
                                           output_padding, std::move(groups));
}

std::tuple<Tensor, Tensor, Tensor>
backward(DispatchKeySet, const Tensor &dy, const Tensor &x, const Tensor &w,
         at::OptionalSymIntArrayRef bias_sizes, SymIntArrayRef stride, SymIntArrayRef padding,
         SymIntArrayRef dilation, bool transposed, SymIntArrayRef output_padding,
         c10::SymInt groups, std::array<bool, 3> mask) {
  DispatchKeySet keys = python(x);
  begin(x);
  add(dy);
  add(x);
  add(w);
  add_options(stride, padding, dilation, transposed, output_padding, groups);
  asked.push_back(mask[0] | mask[1] << 1 | mask[2] << 2 | bias_sizes.has_value() << 3);
  Tensor dx, dw;
  {
    const std::shared_lock lock(table->mutex);
    if (Entry *entry = known(table->backward)) {
      const auto &[data, weight] = entry->programs;
      if (data) dx = run(*data, dy, w, nullptr);
      if (weight) dw = run(*weight, x, dy, nullptr);
      if (dx.defined() == !!data && dw.defined() == !!weight) {
        entry->calls.fetch_add(1, std::memory_order_relaxed);
        keys = kComposite;
      }
    }
  }
  const bool is_python = keys != kComposite;
  std::array<bool, 3> left = mask;
  if (!is_python) left = {mask[0] && !dx.defined(), mask[1] && !dw.defined(), mask[2]};
  if (is_python || left[0] || left[1]) {
    auto [their_dx, their_dw, db] = at::_ops::convolution_backward::redispatch(
        keys, dy, x, w, bias_sizes, stride, padding, dilation, transposed, output_padding,
        std::move(groups), left);
    if (is_python) return {their_dx, their_dw, db};
    return {dx.defined() ? dx : their_dx, dw.defined() ? dw : their_dw, db};
  }
  if (!left[2]) return {dx, dw, Tensor()};
  c10::SmallVector<int64_t, 4> but_channels{0};
  for (int64_t i = 2; i < dy.dim(); i++) but_channels.push_back(i);
  return {dx, dw, at::_ops::sum_dim_IntList::call(dy, but_channels, false, std::nullopt)};
}

// Words of a program, from `program.py`.
struct Reader {
  const int64_t *at;
  int64_t next() { return *at++; }
  Place place() {
    const int64_t memory = next();
    return {memory, next()};
  }
};

Run read_run(Reader &reader) {
  Run run;
  run.run = reinterpret_cast<decltype(run.run)>(reader.next());
  run.pool = reinterpret_cast<void *>(reader.next());
  run.seats = reinterpret_cast<void *>(reader.next());
  run.workers = reader.next();
  run.launches.resize(reader.next());
  for (HostLaunch &launch : run.launches) {
    launch.kernel = reader.next();
    launch.arguments = static_cast<int64_t>(run.places.size());
    launch.items = reader.next();
    launch.chunk = reader.next();
    launch.workers = reader.next();
    const int64_t places = reader.next();
    for (int64_t i = 0; i < places; i++) run.places.push_back(reader.place());
  }
  return run;
}

Step read_step(Reader &reader) {
  Step step{};
  step.kind = static_cast<Step::Kind>(reader.next());
  if (step.kind == Step::kRun) {
    step.host = read_run(reader);
    return step;
  }
  if (step.kind != Step::kLaunch) {
    step.to = reader.place();
    if (step.kind == Step::kCopy) step.from = reader.place();
    step.bytes = reader.next();
    return step;
  }
  step.function = reinterpret_cast<void *>(reader.next());
  for (unsigned &size : step.shape) size = static_cast<unsigned>(reader.next());
  step.shared = static_cast<unsigned>(reader.next());
  step.cooperative = reader.next();
  step.values.resize(reader.next());
  for (Value &value : step.values) {
    value.kind = static_cast<Value::Kind>(reader.next());
    if (value.kind == Value::kNumber) {
      value.number = reader.next();
      continue;
    }
    value.place = reader.place();
    if (value.kind != Value::kMap) continue;
    step.maps++;
    std::memcpy(&value.map, reinterpret_cast<void *>(reader.next()), kMapBytes);
  }
  return step;
}

std::unique_ptr<Program> read_program(const int64_t *words) {
  if (!words) return nullptr;
  Reader reader{words};
  auto program = std::make_unique<Program>();
  program->dtype = static_cast<at::ScalarType>(reader.next());
  program->swaps_operands = reader.next();
  const int64_t rank = reader.next();
  for (int64_t i = 0; i < rank; i++) program->sizes.emplace_back(reader.next());
  for (int64_t i = 0; i < rank; i++) program->strides.emplace_back(reader.next());
  program->alignment = reader.next();
  program->workspace_bytes = reader.next();
  const int64_t memories = reader.next();
  for (int64_t i = 0; i < memories; i++) {
    const bool is_offset = reader.next();
    program->memories.emplace_back(is_offset, reader.next());
  }
  const int64_t steps = reader.next();
  for (int64_t i = 0; i < steps; i++) program->steps.push_back(read_step(reader));
  return program;
}

} // namespace

extern "C" {

// Both operators of both keys, until `convir_close`; null where PyTorch refuses them. What was kept
// stays for the next time.
void *convir_open(const Driver *given) {
  // PyTorch says of the first operator that it is overridden, which was asked for.
  struct : c10::WarningHandler {
    void process(const c10::Warning &) override {}
  } silent;
  const c10::WarningUtils::WarningHandlerGuard guard(&silent);
  driver = *given;
  auto made = std::make_unique<std::array<std::unique_ptr<torch::Library>, 2>>();
  try {
    for (int i = 0; i < 2; i++) {
      auto &library = (*made)[i];
      library = std::make_unique<torch::Library>(torch::Library::IMPL, "aten",
                                                 i ? DispatchKey::CUDA : DispatchKey::CPU,
                                                 __FILE__, __LINE__);
      library->impl("convolution", convolution);
      library->impl("convolution_backward", backward);
    }
  } catch (const std::exception &) {
    return nullptr;
  }
  return made.release();
}

void convir_close(void *made) {
  delete static_cast<std::array<std::unique_ptr<torch::Library>, 2> *>(made);
}

// The words of the thread's last call: their number, and the epoch in which it was looked up.
int64_t convir_asked(const int64_t **words, int64_t *epoch) {
  *words = asked.data();
  *epoch = asked_epoch;
  return static_cast<int64_t>(asked.size());
}

// From now on calls of these words run on programs, where there are some, and else on PyTorch's
// kernel. Where they are counted; null if that is known, or was decided in an epoch before.
std::atomic<int64_t> *convir_keep(int is_backward, const int64_t *words, int64_t count,
                                  int64_t epoch, const int64_t *first, const int64_t *second) {
  const std::unique_lock lock(table->mutex);
  auto &entries = is_backward ? table->backward : table->forward;
  Words key(words, words + count);
  if (epoch != table->epoch || entries.count(key)) return nullptr;
  auto *entry = new Entry{{read_program(first), read_program(second)}};
  entries.emplace(std::move(key), entry);
  return &entry->calls;
}

// Ask Python for every call again.
void convir_forget() {
  const std::unique_lock lock(table->mutex);
  table->epoch++;
  table->forward.clear();
  table->backward.clear();
}

// In a forked child other threads, which may have held the lock, are gone.
void convir_forked() {
  const int64_t epoch = table->epoch;
  table = new Table;
  table->epoch = epoch + 1;
}
}
