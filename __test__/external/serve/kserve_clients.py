"""Calls a server with the clients of KServe. Their messages of gRPC and those of Triton cannot be in one process.

    python kserve_clients.py HTTP GRPC    addresses as HOST:PORT; serves "digits" (pixels -> probabilities)

Prints "ok" at the end.
"""

import asyncio
import sys

import numpy as np
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest, RESTConfig

HTTP, GRPC = sys.argv[1:3]
PIXELS = (np.arange(128, dtype=np.float32) % 17).reshape(2, 1, 8, 8)


async def main():
    tensor = InferInput("pixels", list(PIXELS.shape), "FP32")
    tensor.set_data_from_numpy(PIXELS, binary_data=False)
    request = InferRequest(model_name="digits", infer_inputs=[tensor])
    rest = InferenceRESTClient(RESTConfig(protocol="v2"))
    address = f"http://{HTTP}"
    assert await rest.is_server_live(address) and await rest.is_server_ready(address) and await rest.is_model_ready(address, "digits")
    over_http = (await rest.infer(address, request, model_name="digits")).outputs[0].as_numpy().reshape(2, 10)
    assert abs(over_http.sum() - 2) < 1e-4, over_http
    await rest.close()
    client = InferenceGRPCClient(GRPC)
    assert await client.is_server_live() and await client.is_server_ready() and await client.is_model_ready("digits")
    over_grpc = (await client.infer(request)).outputs[0].as_numpy().reshape(2, 10)
    assert np.array_equal(over_http, over_grpc), (over_http, over_grpc)
    await client.close()


asyncio.run(main())
print("ok")
