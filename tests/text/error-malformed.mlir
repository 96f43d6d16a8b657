// RUN: exits 3 %tool %s -o %t.tosa 2>&1 | filecheck %s

// CHECK: error-malformed.mlir:7:21: error: the value %y is used here, but no operation before defines it [malformed-mlir]
// CHECK-NEXT: {{^      }}%0 = tosa.add %x, %y : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
// CHECK-NEXT: {{^                        \^$}}
func.func @f(%x: tensor<2xf32>) {
  %0 = tosa.add %x, %y : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}
