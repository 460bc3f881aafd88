// RUN: not convir-opt %s -p 'convert-filter-to-channels-last{filter-layout=cfhw}' 2>&1 | filecheck %s
// CHECK: error: filter-layout is fhwc or hwfc, not 'cfhw'

func.func @f() {
  return
}
