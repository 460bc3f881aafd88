// RUN: convir-opt %s -p canonicalize,dce --timing -o %t 2>&1 | filecheck %s

func.func @f() {
  return
}

// CHECK:      phase {{ +}}ms   share
// CHECK-NEXT: start-up
// CHECK-NEXT: parse
// CHECK-NEXT: verify
// CHECK-NEXT: pass 1 canonicalize
// CHECK-NEXT: pass 2 dce
// CHECK-NEXT: print
// CHECK-NEXT: total {{.*}} 100.0%
