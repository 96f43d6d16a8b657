module {
  func.func @network(%arg0: !torch.vtensor<[2,3,6,6],f32>) -> !torch.vtensor<[2,4],f32> attributes {torch.onnx_meta.ir_version = 8 : si64, torch.onnx_meta.opset_version = 17 : si64, torch.onnx_meta.producer_name = "", torch.onnx_meta.producer_version = ""} {
    %0 = torch.operator "onnx.Constant"() {torch.onnx.value = dense_resource<kernel> : tensor<4x3x3x3xf32>} : () -> !torch.vtensor<[4,3,3,3],f32> 
    %none = torch.constant.none
    %1 = torch.operator "onnx.Conv"(%arg0, %0) {torch.onnx.pads = [1 : si64, 1 : si64, 1 : si64, 1 : si64]} : (!torch.vtensor<[2,3,6,6],f32>, !torch.vtensor<[4,3,3,3],f32>) -> !torch.vtensor<[2,4,6,6],f32> 
    %2 = torch.operator "onnx.HardSwish"(%1) : (!torch.vtensor<[2,4,6,6],f32>) -> !torch.vtensor<[2,4,6,6],f32> 
    %3 = torch.operator "onnx.GlobalAveragePool"(%2) : (!torch.vtensor<[2,4,6,6],f32>) -> !torch.vtensor<[2,4,1,1],f32> 
    %4 = torch.operator "onnx.Flatten"(%3) : (!torch.vtensor<[2,4,1,1],f32>) -> !torch.vtensor<[2,4],f32> 
    %5 = torch.operator "onnx.LogSoftmax"(%4) {torch.onnx.axis = 1 : si64} : (!torch.vtensor<[2,4],f32>) -> !torch.vtensor<[2,4],f32> 
    return %5 : !torch.vtensor<[2,4],f32>
  }
}

{-#
  dialect_resources: {
    builtin: {
      kernel: "0x0800000069F0B03E9155523F0C2FA93EDBCDA6BF67C5673F358BE43EC47509BF28C4143F3CA9BA3E8998963EC3D5E83C62F50B3F41883CBFDED126BE58D8F6BEFC4D193FA6B3223DE4BC95BE272B48BFB4AE83BEC866053CD31B8DBEE2A3A53F58DC803FB0832DC030CBF1BF75F732BE5729D8BE3BC55A3EA4895E3EAC8A0740B2568EBF7255C1BEC5BC0240548E253F85BE293FEC9503BF21F4D2BFE17B2B3EC742DF3DDF199DBFF1E72EBFA38B93BD3EDB71BFC441C9BD9B8CC33DE0C2113D559C01BFE0FF173F8423643F3B46A43E897751BF904D3B3F605E00BFAC10613F543089BF861A6A3F1D5CA4BC01D79FBF6EB7A0BE5A9A5D3D4EAB8B3EAE707BBF66BE8DBFE35F4C3ECEF9EEBE6228713EDF6F423F770BD3BF293F823E3BC19C3F705598BE8B914FBF0D93403FBEC3813E9858653F1DC0B0BE39ACBDBF534DE1BD9643E4BE9F7B463FB047463EABBFD0BF1BFB98BF0040623F15052E3FFDE623BFC67789BA3822E43EB1D2EF3E6951603F1652833E5C35C2BDBC8784BE9522873FFF0D10C0A9FB0DBE1E2B073DD671B6BF8C66AA3E5ABA26BF2FC95C3F369B00BEA04D2B3F11039C3F590FC43E432F60BF31D5C1BF"
    }
  }
#-}
