"""Files of tensors in the safetensors format, written and read without Cogwheel."""

import json
import struct

import torch

DTYPES = {
    "F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64, "I64": torch.int64, "U8": torch.uint8,
}  # fmt: skip


def write_tensors(tensors, path):
    header, contents = {}, b""
    names = {dtype: name for name, dtype in DTYPES.items()}
    for name, tensor in tensors.items():
        numbers = tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes()
        offsets = [len(contents), len(contents) + len(numbers)]
        header[name] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape), "data_offsets": offsets}
        contents += numbers
    head = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(head)) + head + contents)


def read_tensors(path):
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    tensors = {}
    for name, found in json.loads(content[8 : 8 + length]).items():
        if name != "__metadata__":
            first, last = (8 + length + offset for offset in found["data_offsets"])
            tensors[name] = torch.frombuffer(bytearray(content[first:last]), dtype=DTYPES[found["dtype"]]).view(found["shape"])
    return tensors
