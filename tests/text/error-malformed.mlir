// RUN: exits 3 %tool %s -o %t.tosa 2>&1 | filecheck %s

// CHECK: error-malformed.mlir:8:21: error: use of undeclared SSA value name [malformed-mlir]
// CHECK-NEXT: {{^      }}%0 = tosa.add %x, %y : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
// CHECK-NEXT: {{^                        \^$}}
// CHECK-NEXT: reported by torch_mlir
func.func @f(%x: tensor<2xf32>) {
  %0 = tosa.add %x, %y : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}
