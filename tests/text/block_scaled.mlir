// RUN: %tool %s -o %t.tosa
// RUN: %tool %t.tosa | filecheck %s
// RUN: %tool %s --to json | filecheck %s --check-prefix=JSON
// RUN: exits 4 %tool %s --tosa-version 1.0 -o %t.old.tosa 2>&1 | filecheck %s --check-prefix=OLD

// JSON:      "scale_type": "FP8UE8M0",
// JSON:      "scale_data": [
// JSON-NEXT:   127,
// JSON-NEXT:   128
// JSON-NEXT: ],
// JSON-NEXT: "block_shape": "BLOCK_SHAPE_32"
// JSON:      "features": 2

// OLD: error: FP8UE8M0 needs TOSA 1.1; 1.0.0 does not have it [version-too-low]
// OLD-NEXT: pass --tosa-version 1.1, or omit the version

// CHECK: fbs_version = "1.1.0d"
// CHECK: dense<tensor<2x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f8E4M3FN, {1.000000e+00, 2.000000e+00}>> : 5.000000e-01 : f8E4M3FN>
// CHECK-SAME: -> tensor<2x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f8E4M3FN>>
func.func @scaled() -> tensor<2x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f8E4M3FN>> {
  %0 = "tosa.const"() <{values = dense<tensor<2x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f8E4M3FN, {1.0, 2.0}>> : 0.5 : f8E4M3FN>}>
    : () -> tensor<2x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f8E4M3FN>>
  return %0 : tensor<2x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f8E4M3FN>>
}
