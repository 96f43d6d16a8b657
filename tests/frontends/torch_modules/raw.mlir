module {
  func.func @network(%arg0: !torch.vtensor<[2,3,6,6],f32>) -> !torch.vtensor<[2,5],f32> {
    %0 = torch.vtensor.literal(dense_resource<torch_tensor_4_3_3_3_torch.float32> : tensor<4x3x3x3xf32>) : !torch.vtensor<[4,3,3,3],f32>
    %1 = torch.vtensor.literal(dense_resource<torch_tensor_4_torch.float32> : tensor<4xf32>) : !torch.vtensor<[4],f32>
    %int1 = torch.constant.int 1
    %int1_0 = torch.constant.int 1
    %2 = torch.prim.ListConstruct %int1, %int1_0 : (!torch.int, !torch.int) -> !torch.list<int>
    %int1_1 = torch.constant.int 1
    %int1_2 = torch.constant.int 1
    %3 = torch.prim.ListConstruct %int1_1, %int1_2 : (!torch.int, !torch.int) -> !torch.list<int>
    %int1_3 = torch.constant.int 1
    %int1_4 = torch.constant.int 1
    %4 = torch.prim.ListConstruct %int1_3, %int1_4 : (!torch.int, !torch.int) -> !torch.list<int>
    %false = torch.constant.bool false
    %int0 = torch.constant.int 0
    %int0_5 = torch.constant.int 0
    %5 = torch.prim.ListConstruct %int0, %int0_5 : (!torch.int, !torch.int) -> !torch.list<int>
    %int1_6 = torch.constant.int 1
    %6 = torch.aten.convolution %arg0, %0, %1, %2, %3, %4, %false, %5, %int1_6 : !torch.vtensor<[2,3,6,6],f32>, !torch.vtensor<[4,3,3,3],f32>, !torch.vtensor<[4],f32>, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, !torch.list<int>, !torch.int -> !torch.vtensor<[2,4,6,6],f32>
    %str = torch.constant.str "none"
    %7 = torch.aten.gelu %6, %str : !torch.vtensor<[2,4,6,6],f32>, !torch.str -> !torch.vtensor<[2,4,6,6],f32>
    %int2 = torch.constant.int 2
    %int2_7 = torch.constant.int 2
    %8 = torch.prim.ListConstruct %int2, %int2_7 : (!torch.int, !torch.int) -> !torch.list<int>
    %int2_8 = torch.constant.int 2
    %int2_9 = torch.constant.int 2
    %9 = torch.prim.ListConstruct %int2_8, %int2_9 : (!torch.int, !torch.int) -> !torch.list<int>
    %int0_10 = torch.constant.int 0
    %int0_11 = torch.constant.int 0
    %10 = torch.prim.ListConstruct %int0_10, %int0_11 : (!torch.int, !torch.int) -> !torch.list<int>
    %int1_12 = torch.constant.int 1
    %int1_13 = torch.constant.int 1
    %11 = torch.prim.ListConstruct %int1_12, %int1_13 : (!torch.int, !torch.int) -> !torch.list<int>
    %false_14 = torch.constant.bool false
    %result0, %result1 = torch.aten.max_pool2d_with_indices %7, %8, %9, %10, %11, %false_14 : !torch.vtensor<[2,4,6,6],f32>, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool -> !torch.vtensor<[2,4,3,3],f32>, !torch.vtensor<[2,4,3,3],si64>
    %int2_15 = torch.constant.int 2
    %int36 = torch.constant.int 36
    %12 = torch.prim.ListConstruct %int2_15, %int36 : (!torch.int, !torch.int) -> !torch.list<int>
    %13 = torch.aten.view %result0, %12 : !torch.vtensor<[2,4,3,3],f32>, !torch.list<int> -> !torch.vtensor<[2,36],f32>
    %14 = torch.vtensor.literal(dense_resource<torch_tensor_5_36_torch.float32> : tensor<5x36xf32>) : !torch.vtensor<[5,36],f32>
    %int1_16 = torch.constant.int 1
    %int0_17 = torch.constant.int 0
    %15 = torch.prim.ListConstruct %int1_16, %int0_17 : (!torch.int, !torch.int) -> !torch.list<int>
    %16 = torch.aten.permute %14, %15 : !torch.vtensor<[5,36],f32>, !torch.list<int> -> !torch.vtensor<[36,5],f32>
    %17 = torch.aten.mm %13, %16 : !torch.vtensor<[2,36],f32>, !torch.vtensor<[36,5],f32> -> !torch.vtensor<[2,5],f32>
    %int1_18 = torch.constant.int 1
    %18 = torch.aten.mul.Scalar %17, %int1_18 : !torch.vtensor<[2,5],f32>, !torch.int -> !torch.vtensor<[2,5],f32>
    %19 = torch.vtensor.literal(dense_resource<torch_tensor_5_torch.float32> : tensor<5xf32>) : !torch.vtensor<[5],f32>
    %int1_19 = torch.constant.int 1
    %20 = torch.aten.mul.Scalar %19, %int1_19 : !torch.vtensor<[5],f32>, !torch.int -> !torch.vtensor<[5],f32>
    %int1_20 = torch.constant.int 1
    %21 = torch.aten.add.Tensor %18, %20, %int1_20 : !torch.vtensor<[2,5],f32>, !torch.vtensor<[5],f32>, !torch.int -> !torch.vtensor<[2,5],f32>
    %int-1 = torch.constant.int -1
    %false_21 = torch.constant.bool false
    %22 = torch.aten._softmax %21, %int-1, %false_21 : !torch.vtensor<[2,5],f32>, !torch.int, !torch.bool -> !torch.vtensor<[2,5],f32>
    return %22 : !torch.vtensor<[2,5],f32>
  }
}

{-#
  dialect_resources: {
    builtin: {
      torch_tensor_4_3_3_3_torch.float32: "0x040000008BDABCBAC56ED33D543222BEDB0711BECCCD97BDC461533D56E479BBFC401C3ED7E88BBC6E96503D293A6EBD9CF21ABDFC443CBEE48302BE0379A2BDB69AE93B09D19B3DDD7DEC3DE29905BEE2A1ABBD58288F3DC5A4233E2D3A22BD0E78133E221DFEBC43D2A63CF270323EA2D036BEEC1FF8BD619047BD88A299BD87442A3EDB78FFBD416FB5BD28AE09BE299138BEFD12E6BD6966293E1CDFAF3D1C07BF3D9AD3253C6511CABD395D053D8F0038BE34650EBE9A30CBBD2EADF83D6317E73D54CCAEBDFC8AE3BB3613FC3DA8E9433E206D9C3D15FBD43CCB21043EBA11E8BDF4E3123DE2C918BEF29508BEE89ACBBD3456B23DB1819E3DF077E9BDC6246E3DE15ED83DF6FCC6BCD7C7F03BADA5363D8C83F43D72393D3EAEDD17BE887090BD6AE69A3D0448233EA57D2B3E94E22D3ED9E01C3D215E2BBEE807913C2093F6BDC0A837BE1F182F3EE0D7153EEC9444BE0C8B133DFCCA04BD34B801BD566BB4BD7091973DFF72E9BDCD7C903D9451C73D76130D3E5D5F933DC90B43BE0CADFFBD86CCC43DB5FC243DF5BA19BEC5F3E2BD7664393EDEC9043E9FDAABBDA06546BD3ABA3BBE7BB262BB8C6714BEAA0218BE",
      torch_tensor_4_torch.float32: "0x0400000015BC2DBC1BB6EC3C4F69A1BD5EDFE93D",
      torch_tensor_5_36_torch.float32: "0x04000000F6B6CFBD9BDB1A3E6BEAE93D98EB0FBEB0E729BD006EF63B2034C73C36E9213DE8F2853D4091233CDE8BA6BDE383A13D3AB623BE804FCABD50E42ABD9E44A6BDD0D16EBDD2E10BBEAB3611BDA6EC113DF35DDEBDD6220CBC0058F43D4B5B8CBC56C8973B56926BBCB6280A3D8008D93DD2A9213E08C4D83D8308223E807C45BC445019BE80D1A1BD686AE83DAB9C8DBA93A8A9BDACC802BE00B81FBE480B10BE4B780ABD7330BB3DF089B83DAC9824BEE8EAD43D5C8C05BEA05210BDBE668ABDF67D03BD600906BDD22519BE2E5C13BE8BA5D5BC00410D3B260F9BBD7B94803D279C19BE004938BC6C16163E263A8BBDCF1C1A3EF63A773D1F051ABEF0F5D73D4B8D9DBCA05F98BD6379083E38EA09BECB81923CD6ED0EBD1EC0F33D0B903E3D3303A43D0017713D002A24BD8B910FBDABA40CBE10F3B83D6F81073E7B8CE93DE6C4F0BD2B93F33B169EF0BD0BE6BBBD96E5C6BD464C693DB067CBBD564D6EBB80BFE53B0608DC3DA70201BE5B54EABDFB32C6BD1EE9EE3D106575BD96F40F3E80DB763D00E3AC3C009EA2BA5BF306BDAB4DAB3C20E21BBDAB7E99BA0035AE3C107F05BE4EE7B2BDE6CF093E04810ABE2B1444BC80D4283EC09A763D80A09A3BC4E613BEC816A93D0B20F3BDE0C841BDBB0B65BD4B30CABC56F3EE3A64C40C3E5672AA3C6BDD183E40CCD03DB3CBD7BDE316993D8649F1BD68AA90BDABC9483D4069613DF709003EE0C25BBDABE28B39F8B9AF3DE70C25BE03C7F63DCB200DBEAB8A163B2B21E8BC63C5B3BD2075B43CA2200D3E8B8E47BDC8A5CABD067A7CBDEF2729BE68139A3D16EEA3BD16C9E3BD83A4C4BD6E40C43DDBC2B43D8BFD023E769E773DB0FB63BD1BC53EBD20AE493D3F4B0C3E9B9C393D1380A1BDFE73A0BD2C5C21BE207D133DE08CBFBD8B2918BE52A7153E6BAADDBD8B529BBC6094433D2BFDAD3B4EADE5BD1EF409BE1009083E4054DE3CDA960D3E8BDB64BD4B15493D101C1CBD2BDFF2BB18E3CFBDE6E0663D",
      torch_tensor_5_torch.float32: "0x0400000000D6573DAB5161BB808819BD7668D2BD1B0CEC3D"
    }
  }
#-}
