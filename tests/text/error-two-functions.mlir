// RUN: exits 2 %tool %s -o %t.tosa 2>&1 | filecheck %s --match-full-lines
// RUN: %tool %s --func second -o %t.tosa
// RUN: %tool %t.tosa | filecheck %s --check-prefix=SECOND
// RUN: exits 2 %tool %s --func third 2>&1 | filecheck %s --check-prefix=THIRD

// SECOND: func.func @second(

// THIRD: error: no function @third with a body; found @first, @second [unknown-function]

// CHECK:      error-two-functions.mlir:18:1: error: function @first is one of 2 that could be exported: @first, @second [ambiguous-function]
// CHECK-NEXT:     func.func @first() { return }
// CHECK-NEXT:     ^
// CHECK-NEXT:     choose one: --func first, or func='first'
// CHECK-NEXT: error-two-functions.mlir:19:1: error: function @second is one of 2 that could be exported: @first, @second [ambiguous-function]
// CHECK-NEXT:     func.func @second(%x: tensor<2xf32>) { return }
// CHECK-NEXT:     ^
// CHECK-NEXT:     choose one: --func second, or func='second'
func.func @first() { return }
func.func @second(%x: tensor<2xf32>) { return }
func.func private @declared()
