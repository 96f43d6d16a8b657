// RUN: %tosa-convert %s -o %t.tosa --verify
// RUN: %tosa-flatbuffer validate %t.tosa
// RUN: %tosa-convert %t.tosa --no-locations | %filecheck %s
// RUN: not %tosa-flatbuffer validate %t.tosa --profile PRO-INT 2>&1 | %filecheck %s --check-prefix=PROFILE

// CHECK: tosa.clamp {{.*}}min_val = 0.0
// PROFILE: outside-profile
func.func @relu(%x: tensor<2x3xf32> {tosa.tensor_name = "x"}) -> (tensor<2x3xf32> {tosa.tensor_name = "y"}) {
  %0 = tosa.clamp %x {max_val = 3.40282347E+38 : f32, min_val = 0.0 : f32} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
