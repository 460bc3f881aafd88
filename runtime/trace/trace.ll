; A kernel that calls another one and writes down who of the workers ran it, and when.

; What one worker did of a launch; a cache line each.
%seen = type {
  i64,            ; 0 begin: ns of CLOCK_MONOTONIC before its first piece; 0 if it had none
  i64,            ; 1 end: after its last one
  i64,            ; 2 busy: ns inside the kernel
  i64,            ; 3 items
  i64,            ; 4 pieces
  [24 x i8]
}
; The arguments of the traced kernel.
%traced = type {
  ptr,            ; 0 kernel
  ptr,            ; 1 args
  [48 x i8],
  [0 x %seen]     ; 3 of each worker
}

declare i32 @clock_gettime(i32, ptr)

define void @traced(ptr %traced, i64 %begin, i64 %end, i64 %worker) {
entry:
  %args.ptr = getelementptr %traced, ptr %traced, i64 0, i32 1
  %kernel = load ptr, ptr %traced
  %args = load ptr, ptr %args.ptr
  %before = call i64 @now()
  call void %kernel(ptr %args, i64 %begin, i64 %end, i64 %worker)
  %after = call i64 @now()
  %seen = getelementptr %traced, ptr %traced, i64 0, i32 3, i64 %worker
  %end.ptr = getelementptr %seen, ptr %seen, i64 0, i32 1
  %busy.ptr = getelementptr %seen, ptr %seen, i64 0, i32 2
  %items.ptr = getelementptr %seen, ptr %seen, i64 0, i32 3
  %pieces.ptr = getelementptr %seen, ptr %seen, i64 0, i32 4
  %begun = load i64, ptr %seen
  %is.first = icmp eq i64 %begun, 0
  %first = select i1 %is.first, i64 %before, i64 %begun
  store i64 %first, ptr %seen
  store i64 %after, ptr %end.ptr
  %took = sub i64 %after, %before
  call void @add(ptr %busy.ptr, i64 %took)
  %done = sub i64 %end, %begin
  call void @add(ptr %items.ptr, i64 %done)
  call void @add(ptr %pieces.ptr, i64 1)
  ret void
}

define internal void @add(ptr %place, i64 %more) {
  %old = load i64, ptr %place
  %new = add i64 %old, %more
  store i64 %new, ptr %place
  ret void
}

; ns of CLOCK_MONOTONIC, which Python's perf_counter_ns reads too.
define internal i64 @now() {
  %time = alloca { i64, i64 }
  %status = call i32 @clock_gettime(i32 1, ptr %time)
  %nanoseconds.ptr = getelementptr { i64, i64 }, ptr %time, i64 0, i32 1
  %seconds = load i64, ptr %time
  %nanoseconds = load i64, ptr %nanoseconds.ptr
  %whole = mul i64 %seconds, 1000000000
  %sum = add i64 %whole, %nanoseconds
  ret i64 %sum
}
