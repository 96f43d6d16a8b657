// RUN: exits 4 %tool %s -o %t.tosa 2>&1 | filecheck %s

// CHECK:      error-captured.mlir:11:10: error: 'tosa.add' uses %arg0 from outside its region [captured-value]
// CHECK-NEXT: {{^        }}%1 = tosa.add %t, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
// CHECK-NEXT: {{^             \^$}}
// CHECK-NEXT:     pass it in as an operand of the control-flow operator, as --pass-captured (pass_captured=True) does; a TOSA region sees only its inputs
// CHECK-NOT:  error:
func.func @f(%x: tensor<2xf32>, %c: tensor<i1>) -> tensor<2xf32> {
  %0 = "tosa.cond_if"(%c, %x) ({
  ^bb0(%t: tensor<2xf32>):
    %1 = tosa.add %t, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    tosa.yield %1 : tensor<2xf32>
  }, {
  ^bb0(%e: tensor<2xf32>):
    tosa.yield %e : tensor<2xf32>
  }) : (tensor<i1>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
