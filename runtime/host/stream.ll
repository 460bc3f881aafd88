; Blocks of a stream: the windows of its states move on, then a program runs on them.
;
; A window is rows of memory, a row longer than what a program sees of it: what came before the block,
; and the block. Windows move on by one block at a time, all at the same pace, until no block fits
; behind; then what came before is copied to where the rows begin.

%window = type {
  ptr,            ; 0 rows
  i64,            ; 1 count: how many
  i64,            ; 2 pitch: bytes from row to row
  i64             ; 3 before: bytes of what came before the block
}
; A pointer that a program's launches read.
%patch = type {
  ptr,            ; 0 where the pointer lies
  i64,            ; 1 memory: which of the stream's it points into
  i64             ; 2 offset: bytes before what it points to
}
%stream = type {
  ptr,            ; 0 run: pool_run
  ptr,            ; 1 pool
  ptr,            ; 2 seats
  i64,            ; 3 most: threads
  ptr,            ; 4 windows
  i64,            ; 5 states: how many
  ptr,            ; 6 memories: block, windows, output, windows
  i64,            ; 7 room: bytes of a row behind what came before
  i64,            ; 8 position: bytes that the windows have moved on
  ptr,            ; 9 patches
  i64,            ; 10 how many
  ptr,            ; 11 launches, for pool_run
  i64,            ; 12 how many
  i64,            ; 13 step: bytes of a row of a block
  i64,            ; 14 rows of a block
  i64,            ; 15 rows of an output
  ptr,            ; 16 block: where one lies that is put together
  ptr             ; 17 output: likewise
}

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @llvm.umin.i64(i64, i64)

%call = type {
  ptr,            ; 0 stream
  ptr,            ; 1 x
  ptr,            ; 2 y
  i64             ; 3 size
}

; `stream_run` with arguments that lie in memory: from Python each one that is passed costs 100 ns.
define void @stream_call(ptr %call) {
entry:
  %stream = load ptr, ptr %call
  %x.ptr = getelementptr %call, ptr %call, i64 0, i32 1
  %x = load ptr, ptr %x.ptr
  %y.ptr = getelementptr %call, ptr %call, i64 0, i32 2
  %y = load ptr, ptr %y.ptr
  %size.ptr = getelementptr %call, ptr %call, i64 0, i32 3
  %size = load i64, ptr %size.ptr
  call void @stream_run(ptr %stream, ptr %x, ptr %y, i64 %size)
  ret void
}

; Run the program on rows of `size` bytes at `x`, one behind the other; the output's go to `y`. The last
; block may be a part of one. It is computed like a whole one: no frame depends on those after it,
; and the next block is written over what the windows then hold of them.
define internal void @stream_run(ptr %stream, ptr %x, ptr %y, i64 %size) {
entry:
  %step.ptr = getelementptr %stream, ptr %stream, i64 0, i32 13
  %step = load i64, ptr %step.ptr
  %x.rows.ptr = getelementptr %stream, ptr %stream, i64 0, i32 14
  %x.rows = load i64, ptr %x.rows.ptr
  %y.rows.ptr = getelementptr %stream, ptr %stream, i64 0, i32 15
  %y.rows = load i64, ptr %y.rows.ptr
  %block.ptr = getelementptr %stream, ptr %stream, i64 0, i32 16
  %block = load ptr, ptr %block.ptr
  %output.ptr = getelementptr %stream, ptr %stream, i64 0, i32 17
  %output = load ptr, ptr %output.ptr
  %room.ptr = getelementptr %stream, ptr %stream, i64 0, i32 7
  %room = load i64, ptr %room.ptr
  %position.ptr = getelementptr %stream, ptr %stream, i64 0, i32 8
  %x.line = icmp eq i64 %x.rows, 1
  %y.line = icmp eq i64 %y.rows, 1
  br label %next
next:
  %done = phi i64 [ 0, %entry ], [ %done.next, %advance ]
  %some = icmp ult i64 %done, %size
  br i1 %some, label %look, label %end
look:
  %reached = load i64, ptr %position.ptr
  %behind = add i64 %reached, %step
  %full = icmp ugt i64 %behind, %room
  br i1 %full, label %rewind, label %take
rewind:
  call void @rewind(ptr %stream, i64 %reached)
  store i64 0, ptr %position.ptr
  br label %take
take:
  %position = phi i64 [ %reached, %look ], [ 0, %rewind ]
  %left = sub i64 %size, %done
  %taken = call i64 @llvm.umin.i64(i64 %left, i64 %step)
  %whole = icmp eq i64 %taken, %step
  %x.here = getelementptr i8, ptr %x, i64 %done
  %y.here = getelementptr i8, ptr %y, i64 %done
  %x.direct = and i1 %whole, %x.line
  %y.direct = and i1 %whole, %y.line
  %from = select i1 %x.direct, ptr %x.here, ptr %block
  %to = select i1 %y.direct, ptr %y.here, ptr %output
  br i1 %x.direct, label %run, label %gather
gather:
  call void @rows(ptr %block, i64 %step, ptr %x.here, i64 %size, i64 %x.rows, i64 %taken)
  br label %run
run:
  call void @place(ptr %stream, ptr %from, ptr %to, i64 %position)
  call void @patch(ptr %stream)
  call void @launch(ptr %stream)
  br i1 %y.direct, label %advance, label %scatter
scatter:
  call void @rows(ptr %y.here, i64 %size, ptr %output, i64 %step, i64 %y.rows, i64 %taken)
  br label %advance
advance:
  %position.next = add i64 %position, %taken
  store i64 %position.next, ptr %position.ptr
  %done.next = add i64 %done, %taken
  br label %next
end:
  ret void
}

; Copy `count` rows of `size` bytes.
define internal void @rows(ptr %to, i64 %to.pitch, ptr %from, i64 %from.pitch, i64 %count, i64 %size) {
entry:
  br label %next
next:
  %r = phi i64 [ 0, %entry ], [ %r.next, %copy ]
  %more = icmp ult i64 %r, %count
  br i1 %more, label %copy, label %done
copy:
  %to.skipped = mul i64 %r, %to.pitch
  %from.skipped = mul i64 %r, %from.pitch
  %target = getelementptr i8, ptr %to, i64 %to.skipped
  %source = getelementptr i8, ptr %from, i64 %from.skipped
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %source, i64 %size, i1 false)
  %r.next = add i64 %r, 1
  br label %next
done:
  ret void
}

define internal void @launch(ptr %stream) {
entry:
  %run = load ptr, ptr %stream
  %pool.ptr = getelementptr %stream, ptr %stream, i64 0, i32 1
  %pool = load ptr, ptr %pool.ptr
  %seats.ptr = getelementptr %stream, ptr %stream, i64 0, i32 2
  %seats = load ptr, ptr %seats.ptr
  %most.ptr = getelementptr %stream, ptr %stream, i64 0, i32 3
  %most = load i64, ptr %most.ptr
  %launches.ptr = getelementptr %stream, ptr %stream, i64 0, i32 11
  %launches = load ptr, ptr %launches.ptr
  %count.ptr = getelementptr %stream, ptr %stream, i64 0, i32 12
  %count = load i64, ptr %count.ptr
  call void %run(ptr %pool, ptr %seats, i64 %most, ptr %launches, i64 %count)
  ret void
}

; Copy what came before the block from `position` to where the rows of each window begin.
define internal void @rewind(ptr %stream, i64 %position) {
entry:
  %windows.ptr = getelementptr %stream, ptr %stream, i64 0, i32 4
  %windows = load ptr, ptr %windows.ptr
  %states.ptr = getelementptr %stream, ptr %stream, i64 0, i32 5
  %states = load i64, ptr %states.ptr
  br label %each
each:
  %w = phi i64 [ 0, %entry ], [ %w.next, %each.done ]
  %more.windows = icmp ult i64 %w, %states
  br i1 %more.windows, label %open, label %done
open:
  %window = getelementptr %window, ptr %windows, i64 %w
  %first = load ptr, ptr %window
  %rows.ptr = getelementptr %window, ptr %window, i64 0, i32 1
  %rows = load i64, ptr %rows.ptr
  %pitch.ptr = getelementptr %window, ptr %window, i64 0, i32 2
  %pitch = load i64, ptr %pitch.ptr
  %before.ptr = getelementptr %window, ptr %window, i64 0, i32 3
  %before = load i64, ptr %before.ptr
  br label %row
row:
  %r = phi i64 [ 0, %open ], [ %r.next, %move ]
  %more.rows = icmp ult i64 %r, %rows
  br i1 %more.rows, label %move, label %each.done
move:
  %skipped = mul i64 %r, %pitch
  %row.begin = getelementptr i8, ptr %first, i64 %skipped
  %row.moved = getelementptr i8, ptr %row.begin, i64 %position
  call void @llvm.memmove.p0.p0.i64(ptr %row.begin, ptr %row.moved, i64 %before, i1 false)
  %r.next = add i64 %r, 1
  br label %row
each.done:
  %w.next = add i64 %w, 1
  br label %each
done:
  ret void
}

; Write down where block, windows and output lie.
define internal void @place(ptr %stream, ptr %from, ptr %to, i64 %position) {
entry:
  %windows.ptr = getelementptr %stream, ptr %stream, i64 0, i32 4
  %windows = load ptr, ptr %windows.ptr
  %states.ptr = getelementptr %stream, ptr %stream, i64 0, i32 5
  %states = load i64, ptr %states.ptr
  %memories.ptr = getelementptr %stream, ptr %stream, i64 0, i32 6
  %memories = load ptr, ptr %memories.ptr
  store ptr %from, ptr %memories
  %outputs = add i64 %states, 1
  %output.ptr = getelementptr i64, ptr %memories, i64 %outputs
  store ptr %to, ptr %output.ptr
  br label %each
each:
  %w = phi i64 [ 0, %entry ], [ %w.next, %set ]
  %more = icmp ult i64 %w, %states
  br i1 %more, label %set, label %done
set:
  %window = getelementptr %window, ptr %windows, i64 %w
  %rows = load i64, ptr %window
  %moved = add i64 %rows, %position
  %w.next = add i64 %w, 1
  %input.ptr = getelementptr i64, ptr %memories, i64 %w.next
  store i64 %moved, ptr %input.ptr
  %second = add i64 %outputs, %w.next
  %second.ptr = getelementptr i64, ptr %memories, i64 %second
  store i64 %moved, ptr %second.ptr
  br label %each
done:
  ret void
}

; Let the pointers of a program point to where its memories lie now.
define internal void @patch(ptr %stream) {
entry:
  %memories.ptr = getelementptr %stream, ptr %stream, i64 0, i32 6
  %memories = load ptr, ptr %memories.ptr
  %patches.ptr = getelementptr %stream, ptr %stream, i64 0, i32 9
  %patches = load ptr, ptr %patches.ptr
  %count.ptr = getelementptr %stream, ptr %stream, i64 0, i32 10
  %count = load i64, ptr %count.ptr
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %write ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %write, label %done
write:
  %patch = getelementptr %patch, ptr %patches, i64 %i
  %slot = load ptr, ptr %patch
  %memory.ptr = getelementptr %patch, ptr %patch, i64 0, i32 1
  %memory = load i64, ptr %memory.ptr
  %offset.ptr = getelementptr %patch, ptr %patch, i64 0, i32 2
  %offset = load i64, ptr %offset.ptr
  %base.ptr = getelementptr i64, ptr %memories, i64 %memory
  %base = load i64, ptr %base.ptr
  %pointer = add i64 %base, %offset
  store i64 %pointer, ptr %slot
  %i.next = add i64 %i, 1
  br label %next
done:
  ret void
}
