; A pool of helper threads for range-split launches, without a lock on the fast path.
;
; A launch calls  void kernel(ptr args, i64 begin, i64 end, i64 worker)  on disjoint pieces of
; [0, items) until all are done. Every worker has a range of its own, so that launches in a row touch
; the same memory from the same core, and takes pieces from the others' once that is done. The caller
; is worker 0 and does what no helper takes: a helper that wakes late finds the gate closed and goes
; back to sleep; nobody waits for it.
;
; The gate is one word: the launch's number in the high half, an open bit, and the number of
; helpers inside. A helper enters by incrementing it while it is open; the launch closes it and
; waits until it is empty, so helpers only ever read the fields of a launch that is alive.
;
; Linux wakes a thread on the core that it last ran on, or on the waker's, and looks for an idle one
; only while the cores were not busy of late. On the caller's core both take turns for milliseconds
; while another idles. So a launch bars the helpers that it wakes from its own core.

%pool = type {
  i64,            ; 0 gate
  [56 x i8],      ;   (one cache line each for what different threads write)
  i32,            ; 2 busy: 1 while a launch owns the pool
  i32,            ; 3 stop: 1 once helpers have to return
  ptr,            ; 4 kernel
  ptr,            ; 5 args
  i64,            ; 6 chunk: items taken at a time
  i64,            ; 7 workers: of this launch, the caller included
  [24 x i8],
  [128 x i8]      ; 9 cores: a bit for each that helpers may run on
}
; One per worker; helpers sleep on their own semaphore (glibc's is 32 bytes).
%seat = type {
  i32,            ; 0 sleeping
  i32,            ; 1 thread: the kernel's number of the helper, 0 before it began
  i32,            ; 2 barred: the core that the helper may not run on, -1 if it may on all
  [52 x i8],
  [64 x i8],      ; 4 semaphore
  i64,            ; 5 next: the first item of the worker's range that nobody took
  i64,            ; 6 end: of the range
  [48 x i8]
}

; One of the launches of a run.
%launch = type {
  ptr,            ; 0 kernel
  ptr,            ; 1 args
  i64,            ; 2 items
  i64,            ; 3 chunk
  i64             ; 4 workers
}

declare i32 @sem_init(ptr, i32, i32)
declare i32 @sem_post(ptr)
declare i32 @sem_wait(ptr)
declare i32 @sched_yield()
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @llvm.umin.i64(i64, i64)

define void @pool_init(ptr %pool, ptr %seats, i64 %workers) {
entry:
  %cores = getelementptr %pool, ptr %pool, i64 0, i32 9
  ; Where this fails no core is known, and helpers stay where they are.
  %known = call i32 @sched_getaffinity(i32 0, i64 128, ptr %cores)
  br label %loop
loop:
  %w = phi i64 [ 0, %entry ], [ %w.next, %loop ]
  %semaphore = getelementptr %seat, ptr %seats, i64 %w, i32 4
  %status = call i32 @sem_init(ptr %semaphore, i32 0, i32 0)
  %barred.ptr = getelementptr %seat, ptr %seats, i64 %w, i32 2
  store i32 -1, ptr %barred.ptr
  %w.next = add i64 %w, 1
  %more = icmp ult i64 %w.next, %workers
  br i1 %more, label %loop, label %done
done:
  ret void
}

; Take pieces until none is left, first of the worker's own range.
define internal void @work(ptr %pool, ptr %seats, i64 %worker) {
entry:
  %kernel.ptr = getelementptr %pool, ptr %pool, i64 0, i32 4
  %args.ptr = getelementptr %pool, ptr %pool, i64 0, i32 5
  %chunk.ptr = getelementptr %pool, ptr %pool, i64 0, i32 6
  %workers.ptr = getelementptr %pool, ptr %pool, i64 0, i32 7
  %kernel = load ptr, ptr %kernel.ptr
  %args = load ptr, ptr %args.ptr
  %chunk = load i64, ptr %chunk.ptr
  %workers = load i64, ptr %workers.ptr
  br label %range
range:
  %owner = phi i64 [ %worker, %entry ], [ %owner.next, %other ]
  %turn = phi i64 [ 0, %entry ], [ %turn.next, %other ]
  %next.ptr = getelementptr %seat, ptr %seats, i64 %owner, i32 5
  %end.ptr = getelementptr %seat, ptr %seats, i64 %owner, i32 6
  %range.end = load i64, ptr %end.ptr
  br label %look
look:
  ; Only who may get a piece takes the line that the owner writes.
  %seen = load atomic i64, ptr %next.ptr monotonic, align 8
  %some = icmp slt i64 %seen, %range.end
  br i1 %some, label %take, label %other
take:
  %begin = atomicrmw add ptr %next.ptr, i64 %chunk monotonic
  %left = icmp slt i64 %begin, %range.end
  br i1 %left, label %run, label %other
run:
  %end.full = add i64 %begin, %chunk
  %partial = icmp slt i64 %range.end, %end.full
  %end = select i1 %partial, i64 %range.end, i64 %end.full
  call void %kernel(ptr %args, i64 %begin, i64 %end, i64 %worker)
  br label %look
other:
  %turn.next = add i64 %turn, 1
  %following = add i64 %owner, 1
  %last = icmp eq i64 %following, %workers
  %owner.next = select i1 %last, i64 0, i64 %following
  %more = icmp ult i64 %turn.next, %workers
  br i1 %more, label %range, label %done
done:
  ret void
}

; Returns the number of workers that the launch could use: 1 if the pool was busy.
define i64 @pool_launch(ptr %pool, ptr %seats, ptr %kernel, ptr %args, i64 %items, i64 %chunk, i64 %workers) {
entry:
  %alone.wanted = icmp ule i64 %workers, 1
  br i1 %alone.wanted, label %alone, label %acquire
acquire:
  %busy.ptr = getelementptr %pool, ptr %pool, i64 0, i32 2
  %was = atomicrmw xchg ptr %busy.ptr, i32 1 acquire
  %free = icmp eq i32 %was, 0
  br i1 %free, label %publish, label %alone
alone:
  call void %kernel(ptr %args, i64 0, i64 %items, i64 0)
  ret i64 1
publish:
  %kernel.ptr = getelementptr %pool, ptr %pool, i64 0, i32 4
  %args.ptr = getelementptr %pool, ptr %pool, i64 0, i32 5
  %chunk.ptr = getelementptr %pool, ptr %pool, i64 0, i32 6
  %workers.ptr = getelementptr %pool, ptr %pool, i64 0, i32 7
  store ptr %kernel, ptr %kernel.ptr
  store ptr %args, ptr %args.ptr
  store i64 %chunk, ptr %chunk.ptr
  store i64 %workers, ptr %workers.ptr
  br label %share
share:
  %s = phi i64 [ 0, %publish ], [ %s.next, %share ]
  %begin = phi i64 [ 0, %publish ], [ %end, %share ]
  %s.next = add i64 %s, 1
  %before = mul i64 %items, %s.next
  %end = udiv i64 %before, %workers
  %next.ptr = getelementptr %seat, ptr %seats, i64 %s, i32 5
  %end.ptr = getelementptr %seat, ptr %seats, i64 %s, i32 6
  store atomic i64 %begin, ptr %next.ptr monotonic, align 8
  store i64 %end, ptr %end.ptr
  %shared = icmp eq i64 %s.next, %workers
  br i1 %shared, label %open, label %share
open:
  %gate.old = load atomic i64, ptr %pool monotonic, align 8
  %number.old = and i64 %gate.old, -4294967296
  %number = add i64 %number.old, 4294967296
  %gate.open = or i64 %number, 2147483648
  store atomic i64 %gate.open, ptr %pool seq_cst, align 8
  %core = call i32 @sched_getcpu()
  br label %wake
wake:
  %w = phi i64 [ 1, %open ], [ %w.next, %wake.done ]
  %sleeping.ptr = getelementptr %seat, ptr %seats, i64 %w, i32 0
  %sleeping.seen = load atomic i32, ptr %sleeping.ptr seq_cst, align 4
  %maybe = icmp ne i32 %sleeping.seen, 0
  br i1 %maybe, label %claim, label %wake.done
claim:
  %sleeping = atomicrmw xchg ptr %sleeping.ptr, i32 0 seq_cst
  %asleep = icmp ne i32 %sleeping, 0
  br i1 %asleep, label %post, label %wake.done
post:
  %seat = getelementptr %seat, ptr %seats, i64 %w
  call void @bar(ptr %pool, ptr %seat, i32 %core)
  %semaphore = getelementptr %seat, ptr %seats, i64 %w, i32 4
  %posted = call i32 @sem_post(ptr %semaphore)
  br label %wake.done
wake.done:
  %w.next = add i64 %w, 1
  %more = icmp ult i64 %w.next, %workers
  br i1 %more, label %wake, label %participate
participate:
  call void @work(ptr %pool, ptr %seats, i64 0)
  %closing = atomicrmw and ptr %pool, i64 -2147483649 seq_cst
  br label %drain
drain:
  %turn = phi i64 [ 0, %participate ], [ %turn.next, %again ]
  %gate = load atomic i64, ptr %pool acquire, align 8
  %inside = and i64 %gate, 2147483647
  %empty = icmp eq i64 %inside, 0
  br i1 %empty, label %release, label %pause
pause:
  call void @relax()
  %turn.next = add i64 %turn, 1
  ; A helper that lost its core needs ours.
  %long = icmp ugt i64 %turn.next, 20000
  br i1 %long, label %yield, label %again
yield:
  %yielded = call i32 @sched_yield()
  br label %again
again:
  br label %drain
release:
  store atomic i32 0, ptr %busy.ptr release, align 4
  ret i64 %workers
}

; `count` launches, one after the other, each on its `workers` and on `most` at most.
define void @pool_run(ptr %pool, ptr %seats, i64 %most, ptr %launches, i64 %count) {
entry:
  %some = icmp ne i64 %count, 0
  br i1 %some, label %next, label %done
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %launch = getelementptr %launch, ptr %launches, i64 %i
  %args.ptr = getelementptr %launch, ptr %launch, i64 0, i32 1
  %items.ptr = getelementptr %launch, ptr %launch, i64 0, i32 2
  %chunk.ptr = getelementptr %launch, ptr %launch, i64 0, i32 3
  %workers.ptr = getelementptr %launch, ptr %launch, i64 0, i32 4
  %kernel = load ptr, ptr %launch
  %args = load ptr, ptr %args.ptr
  %items = load i64, ptr %items.ptr
  %chunk = load i64, ptr %chunk.ptr
  %wanted = load i64, ptr %workers.ptr
  %workers = call i64 @llvm.umin.i64(i64 %wanted, i64 %most)
  %used = call i64 @pool_launch(ptr %pool, ptr %seats, ptr %kernel, ptr %args, i64 %items, i64 %chunk, i64 %workers)
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, %count
  br i1 %more, label %next, label %done
done:
  ret void
}

; A kernel whose items are the bytes of a copy from args[0] to args[1], which may be the same.
define void @pool_copy(ptr %args, i64 %begin, i64 %end, i64 %worker) {
entry:
  %out.ptr = getelementptr ptr, ptr %args, i64 1
  %source = load ptr, ptr %args
  %out = load ptr, ptr %out.ptr
  %same = icmp eq ptr %source, %out
  br i1 %same, label %done, label %copy
copy:
  %from = getelementptr i8, ptr %source, i64 %begin
  %to = getelementptr i8, ptr %out, i64 %begin
  %size = sub i64 %end, %begin
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %size, i1 false)
  br label %done
done:
  ret void
}

; Bar the helper of a seat from `core`, the caller's, if it is not.
define internal void @bar(ptr %pool, ptr %seat, i32 %core) {
entry:
  %left = alloca [128 x i8], align 8
  %barred.ptr = getelementptr %seat, ptr %seat, i64 0, i32 2
  %barred = load i32, ptr %barred.ptr
  %other = icmp ne i32 %barred, %core
  ; A failed sched_getcpu gives -1.
  %inside = icmp ult i32 %core, 1024
  %move = and i1 %other, %inside
  br i1 %move, label %set, label %done
set:
  store i32 %core, ptr %barred.ptr
  %cores = getelementptr %pool, ptr %pool, i64 0, i32 9
  call void @llvm.memcpy.p0.p0.i64(ptr %left, ptr %cores, i64 128, i1 false)
  %number = zext i32 %core to i64
  %byte = lshr i64 %number, 3
  %place = getelementptr i8, ptr %left, i64 %byte
  %bits = load i8, ptr %place
  %low = trunc i32 %core to i8
  %position = and i8 %low, 7
  %bit = shl i8 1, %position
  %others = xor i8 %bit, -1
  %kept = and i8 %bits, %others
  store i8 %kept, ptr %place
  %thread.ptr = getelementptr %seat, ptr %seat, i64 0, i32 1
  %thread = load i32, ptr %thread.ptr
  ; Refused where no core is left: then they share this one.
  %status = call i32 @sched_setaffinity(i32 %thread, i64 128, ptr %left)
  br label %done
done:
  ret void
}

; The life of helper `worker`, which the kernel calls `thread`: look at the gate `spins` times, then
; sleep. Returns on stop.
define void @pool_serve(ptr %pool, ptr %seats, i64 %worker, i32 %thread, i64 %spins) {
entry:
  %seat = getelementptr %seat, ptr %seats, i64 %worker
  %thread.ptr = getelementptr %seat, ptr %seat, i64 0, i32 1
  store i32 %thread, ptr %thread.ptr
  %sleeping.ptr = getelementptr %seat, ptr %seats, i64 %worker, i32 0
  %semaphore = getelementptr %seat, ptr %seats, i64 %worker, i32 4
  %stop.ptr = getelementptr %pool, ptr %pool, i64 0, i32 3
  %workers.ptr = getelementptr %pool, ptr %pool, i64 0, i32 7
  %served = alloca i64
  store i64 0, ptr %served
  br label %idle
idle:
  br label %look
look:
  %turn = phi i64 [ 0, %idle ], [ %turn.next, %spin ]
  %gate = load atomic i64, ptr %pool seq_cst, align 8
  %open = call i1 @is_new(i64 %gate, ptr %served)
  br i1 %open, label %enter, label %check.stop
check.stop:
  %stop = load atomic i32, ptr %stop.ptr seq_cst, align 4
  %stopped = icmp ne i32 %stop, 0
  br i1 %stopped, label %done, label %spin.or.sleep
spin.or.sleep:
  %turn.next = add i64 %turn, 1
  %patient = icmp ult i64 %turn.next, %spins
  br i1 %patient, label %spin, label %sleep
spin:
  call void @relax()
  br label %look
sleep:
  store atomic i32 1, ptr %sleeping.ptr seq_cst, align 4
  ; A launch that opened the gate before seeing the mark above must not be missed.
  %gate.again = load atomic i64, ptr %pool seq_cst, align 8
  %open.again = call i1 @is_new(i64 %gate.again, ptr %served)
  %stop.again = load atomic i32, ptr %stop.ptr seq_cst, align 4
  %stopped.again = icmp ne i32 %stop.again, 0
  %awake = or i1 %open.again, %stopped.again
  br i1 %awake, label %unmark, label %wait
unmark:
  %mark = atomicrmw xchg ptr %sleeping.ptr, i32 0 seq_cst
  %unposted = icmp ne i32 %mark, 0
  br i1 %unposted, label %idle, label %wait
wait:
  %waited = call i32 @sem_wait(ptr %semaphore)
  %interrupted = icmp ne i32 %waited, 0
  br i1 %interrupted, label %wait, label %idle
enter:
  %inside = add i64 %gate, 1
  %swap = cmpxchg ptr %pool, i64 %gate, i64 %inside seq_cst seq_cst
  %entered = extractvalue { i64, i1 } %swap, 1
  br i1 %entered, label %serve, label %idle
serve:
  %number = lshr i64 %gate, 32
  store i64 %number, ptr %served
  %workers = load i64, ptr %workers.ptr
  %wanted = icmp ult i64 %worker, %workers
  br i1 %wanted, label %help, label %leave
help:
  call void @work(ptr %pool, ptr %seats, i64 %worker)
  br label %leave
leave:
  %left = atomicrmw sub ptr %pool, i64 1 seq_cst
  br label %idle
done:
  ret void
}

; Open, and not the launch that this helper served last.
define internal i1 @is_new(i64 %gate, ptr %served) {
  %bit = and i64 %gate, 2147483648
  %open = icmp ne i64 %bit, 0
  %number = lshr i64 %gate, 32
  %last = load i64, ptr %served
  %other = icmp ne i64 %number, %last
  %new = and i1 %open, %other
  ret i1 %new
}

define void @pool_stop(ptr %pool, ptr %seats, i64 %workers) {
entry:
  %stop.ptr = getelementptr %pool, ptr %pool, i64 0, i32 3
  store atomic i32 1, ptr %stop.ptr seq_cst, align 4
  br label %next
next:
  %w = phi i64 [ 1, %entry ], [ %w.next, %next.done ]
  %more = icmp ult i64 %w, %workers
  br i1 %more, label %claim, label %done
claim:
  %sleeping.ptr = getelementptr %seat, ptr %seats, i64 %w, i32 0
  %sleeping = atomicrmw xchg ptr %sleeping.ptr, i32 0 seq_cst
  %asleep = icmp ne i32 %sleeping, 0
  br i1 %asleep, label %post, label %next.done
post:
  %semaphore = getelementptr %seat, ptr %seats, i64 %w, i32 4
  %posted = call i32 @sem_post(ptr %semaphore)
  br label %next.done
next.done:
  %w.next = add i64 %w, 1
  br label %next
done:
  ret void
}

declare void @llvm.x86.sse2.pause()

; What a thread calls while it waits for a word to change.
define internal void @relax() {
  call void @llvm.x86.sse2.pause()
  ret void
}
