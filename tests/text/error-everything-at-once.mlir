// RUN: exits 4 %tool %s -o %t.tosa 2>&1 | filecheck %s --match-full-lines
// Every finding at once: operator, place, rule, what to do.

// CHECK:      error-everything-at-once.mlir:20:1: error: argument 0: tensor<2xf64>: TOSA has no element type f64 [unsupported-dtype]
// CHECK-NEXT:     func.func @f(%a: tensor<2xf64>, %m: memref<4xi8>, %u: tensor<2xsi8>) {
// CHECK-NEXT:     ^
// CHECK-NEXT:     TOSA has no FP64; to compute in f32 instead: --narrow f64, or narrow=['f64']
// CHECK-NEXT: error-everything-at-once.mlir:20:1: error: argument 1: memref<4xi8> is not a tensor or a !tosa.shape [unsupported-type]
// CHECK-NEXT:     func.func @f(%a: tensor<2xf64>, %m: memref<4xi8>, %u: tensor<2xsi8>) {
// CHECK-NEXT:     ^
// CHECK-NEXT:     TOSA functions take and return tensors only
// CHECK-NEXT: error-everything-at-once.mlir:20:1: error: argument 2: tensor<2xsi8>: TOSA has no element type si8 [unsupported-dtype]
// CHECK-NEXT:     func.func @f(%a: tensor<2xf64>, %m: memref<4xi8>, %u: tensor<2xsi8>) {
// CHECK-NEXT:     ^
// CHECK-NEXT:     run tosa-convert-integer-type-to-signless; TOSA types are signless
// CHECK-NEXT: error-everything-at-once.mlir:21:8: error: 'math.absf' is not a TOSA operator [foreign-operator]
// CHECK-NEXT:       %0 = math.absf %a : tensor<2xf64>
// CHECK-NEXT:            ^
// CHECK-NEXT:     lower it to TOSA before exporting; if TOSA was lowered to math, export before that pass
func.func @f(%a: tensor<2xf64>, %m: memref<4xi8>, %u: tensor<2xsi8>) {
  %0 = math.absf %a : tensor<2xf64>
  return
}
