// Compressions that kafkajs leaves to its user, except for gzip, which it has.

import { compress, decompress, init } from "@bokuweb/zstd-wasm";
import kafkajs from "kafkajs";
import snappy from "kafkajs-snappy";
import lz4 from "lz4-napi";

const { CompressionCodecs, CompressionTypes } = kafkajs;

export async function readyCodecs() {
  await init();
  CompressionCodecs[CompressionTypes.Snappy] = snappy;
  CompressionCodecs[CompressionTypes.LZ4] = () => ({
    compress: async (encoder) => lz4.compressFrame(encoder.buffer),
    decompress: async (buffer) => lz4.decompressFrame(buffer),
  });
  CompressionCodecs[CompressionTypes.ZSTD] = () => ({
    compress: async (encoder) => Buffer.from(compress(encoder.buffer)),
    decompress: async (buffer) => Buffer.from(decompress(buffer)),
  });
}
