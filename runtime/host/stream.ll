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
%program = type {
  ptr,            ; 0 patches
  i64,            ; 1 how many
  ptr,            ; 2 launches, for pool_run
  i64,            ; 3 how many
  i64             ; 4 step: bytes of a row of a block
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
  i64             ; 8 position: bytes that the windows have moved on
}

declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)

; Run `program` on `count` blocks, which lie behind each other at `x`; their outputs go to `y`.
define void @stream_run(ptr %stream, ptr %program, i64 %x, i64 %y, i64 %count) {
entry:
  %step.ptr = getelementptr %program, ptr %program, i64 0, i32 4
  %step = load i64, ptr %step.ptr
  %patches = load ptr, ptr %program
  %patch.count.ptr = getelementptr %program, ptr %program, i64 0, i32 1
  %patch.count = load i64, ptr %patch.count.ptr
  %launches.ptr = getelementptr %program, ptr %program, i64 0, i32 2
  %launches = load ptr, ptr %launches.ptr
  %launch.count.ptr = getelementptr %program, ptr %program, i64 0, i32 3
  %launch.count = load i64, ptr %launch.count.ptr
  %run = load ptr, ptr %stream
  %pool.ptr = getelementptr %stream, ptr %stream, i64 0, i32 1
  %pool = load ptr, ptr %pool.ptr
  %seats.ptr = getelementptr %stream, ptr %stream, i64 0, i32 2
  %seats = load ptr, ptr %seats.ptr
  %most.ptr = getelementptr %stream, ptr %stream, i64 0, i32 3
  %most = load i64, ptr %most.ptr
  %room.ptr = getelementptr %stream, ptr %stream, i64 0, i32 7
  %room = load i64, ptr %room.ptr
  %position.ptr = getelementptr %stream, ptr %stream, i64 0, i32 8
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %block ]
  %from = phi i64 [ %x, %entry ], [ %from.next, %block ]
  %to = phi i64 [ %y, %entry ], [ %to.next, %block ]
  %some = icmp ult i64 %i, %count
  br i1 %some, label %look, label %done
look:
  %reached = load i64, ptr %position.ptr
  %behind = add i64 %reached, %step
  %full = icmp ugt i64 %behind, %room
  br i1 %full, label %rewind, label %block
rewind:
  call void @rewind(ptr %stream, i64 %reached)
  store i64 0, ptr %position.ptr
  br label %block
block:
  %position = phi i64 [ %reached, %look ], [ 0, %rewind ]
  call void @place(ptr %stream, i64 %from, i64 %to, i64 %position)
  %memories.ptr = getelementptr %stream, ptr %stream, i64 0, i32 6
  %memories = load ptr, ptr %memories.ptr
  call void @patch(ptr %patches, i64 %patch.count, ptr %memories)
  call void %run(ptr %pool, ptr %seats, i64 %most, ptr %launches, i64 %launch.count)
  %position.next = add i64 %position, %step
  store i64 %position.next, ptr %position.ptr
  %i.next = add i64 %i, 1
  %from.next = add i64 %from, %step
  %to.next = add i64 %to, %step
  br label %next
done:
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
define internal void @place(ptr %stream, i64 %from, i64 %to, i64 %position) {
entry:
  %windows.ptr = getelementptr %stream, ptr %stream, i64 0, i32 4
  %windows = load ptr, ptr %windows.ptr
  %states.ptr = getelementptr %stream, ptr %stream, i64 0, i32 5
  %states = load i64, ptr %states.ptr
  %memories.ptr = getelementptr %stream, ptr %stream, i64 0, i32 6
  %memories = load ptr, ptr %memories.ptr
  store i64 %from, ptr %memories
  %outputs = add i64 %states, 1
  %output.ptr = getelementptr i64, ptr %memories, i64 %outputs
  store i64 %to, ptr %output.ptr
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
define internal void @patch(ptr %patches, i64 %count, ptr %memories) {
entry:
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
