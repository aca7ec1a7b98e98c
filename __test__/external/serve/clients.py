"""Calls a server with the clients of Triton and OpenAI, and compares their answers with each other.

    python clients.py HTTP GRPC    addresses as HOST:PORT; serves "digits" (pixels -> probabilities) and the embedder "words"

Prints "ok" at the end.
"""

import asyncio
import sys

import numpy as np
import openai
import tritonclient.grpc as triton_grpc
import tritonclient.grpc.aio as triton_grpc_aio
import tritonclient.http as triton_http
import tritonclient.http.aio as triton_http_aio
from tritonclient.utils import InferenceServerException

HTTP, GRPC = sys.argv[1:3]
PIXELS = (np.arange(128, dtype=np.float32) % 17).reshape(2, 1, 8, 8)
TEXTS = ["a dog", "a horse"]


def pixels(module, **options):
    tensor = module.InferInput("pixels", list(PIXELS.shape), "FP32")
    tensor.set_data_from_numpy(PIXELS, **options)
    return [tensor]


def texts(module):
    tensor = module.InferInput("text", [len(TEXTS)], "BYTES")
    tensor.set_data_from_numpy(np.array([text.encode() for text in TEXTS], dtype=object))
    return [tensor]


def same(expected, got):
    assert np.array_equal(expected, got), (expected, got)


def refused(call, message):
    try:
        call()
    except InferenceServerException as error:
        assert message in str(error), error
    else:
        raise AssertionError(f"expected the error {message!r}")


def triton_over_http():
    client = triton_http.InferenceServerClient(HTTP)
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("digits", "1")
    assert client.get_server_metadata()["name"] == "webnn-node-serve"
    metadata = client.get_model_metadata("digits")
    assert metadata["inputs"] == [{"name": "pixels", "datatype": "FP32", "shape": [-1, 1, 8, 8]}], metadata
    binary = client.infer("digits", pixels(triton_http), request_id="r1")
    assert binary.get_response()["id"] == "r1"
    expected = binary.as_numpy("probabilities")
    assert expected.shape == (2, 10) and abs(expected.sum() - 2) < 1e-4
    as_json = triton_http.InferRequestedOutput("probabilities", binary_data=False)
    same(expected, client.infer("digits", pixels(triton_http, binary_data=False), outputs=[as_json]).as_numpy("probabilities"))
    for algorithm in ("gzip", "deflate"):
        answer = client.infer("digits", pixels(triton_http), request_compression_algorithm=algorithm, response_compression_algorithm=algorithm)
        same(expected, answer.as_numpy("probabilities"))
    same(expected, client.async_infer("digits", pixels(triton_http)).get_result().as_numpy("probabilities"))
    refused(lambda: client.infer("none", pixels(triton_http)), 'there is no model "none"')
    refused(lambda: client.infer("digits", texts(triton_http)), 'there is no input "text"')
    client.unload_model("digits")
    assert [(model["name"], model["state"]) for model in client.get_model_repository_index()][0] == ("digits", "UNAVAILABLE")
    client.load_model("digits")
    same(expected, client.infer("digits", pixels(triton_http)).as_numpy("probabilities"))
    return expected


def triton_over_grpc(expected):
    client = triton_grpc.InferenceServerClient(GRPC)
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("digits", "1")
    assert not client.is_model_ready("none") and not client.is_model_ready("digits", "2")
    assert client.get_model_metadata("digits").inputs[0].shape == [-1, 1, 8, 8]
    assert list(client.get_model_metadata("digits").versions) == ["1"]
    answer = client.infer("digits", pixels(triton_grpc), request_id="r2", client_timeout=60)
    assert answer.get_response().id == "r2"
    same(expected, answer.as_numpy("probabilities"))
    refused(lambda: client.infer("none", pixels(triton_grpc)), 'there is no model "none"')
    compressed = client.infer("digits", pixels(triton_grpc), compression_algorithm="gzip")
    same(expected, compressed.as_numpy("probabilities"))
    refused(lambda: client.infer("digits", pixels(triton_grpc), sequence_id=7, sequence_start=True), "the parameter sequence_id is not supported")
    classes = triton_grpc.InferRequestedOutput("probabilities", class_count=3)
    refused(lambda: client.infer("digits", pixels(triton_grpc), outputs=[classes]), "the parameter classification is not supported")
    client.unload_model("digits")
    assert not client.is_model_ready("digits")
    refused(lambda: client.infer("digits", pixels(triton_grpc)), "is not ready: unloaded")
    client.load_model("digits")
    same(expected, client.infer("digits", pixels(triton_grpc)).as_numpy("probabilities"))
    large = triton_grpc.InferInput("pixels", [20_000, 1, 8, 8], "FP32")
    large.set_data_from_numpy(np.repeat(PIXELS[:1], 20_000, axis=0))
    rows = client.infer("digits", [large]).as_numpy("probabilities")
    assert rows.shape == (20_000, 10), "5 MB, more than gRPC takes by default"


async def triton_asynchronous(expected):
    async with triton_http_aio.InferenceServerClient(HTTP) as client:
        answers = await asyncio.gather(*(client.infer("digits", pixels(triton_http_aio)) for _ in range(16)))
        for answer in answers:
            np.testing.assert_allclose(answer.as_numpy("probabilities"), expected, atol=1e-5)
    async with triton_grpc_aio.InferenceServerClient(GRPC) as client:
        answers = await asyncio.gather(*(client.infer("digits", pixels(triton_grpc_aio)) for _ in range(16)))
        for answer in answers:
            np.testing.assert_allclose(answer.as_numpy("probabilities"), expected, atol=1e-5)


def embeddings():
    client = openai.OpenAI(base_url=f"http://{HTTP}/v1", api_key="none")
    assert [model.id for model in client.models.list()] == ["words"]
    single = [client.embeddings.create(model="words", input=text).data[0].embedding for text in TEXTS]
    many = client.embeddings.create(model="words", input=TEXTS, encoding_format="float")
    assert many.usage.prompt_tokens > 0
    np.testing.assert_allclose(single, [entry.embedding for entry in many.data], atol=1e-6)
    try:
        client.embeddings.create(model="none", input="a")
    except openai.NotFoundError as error:
        assert error.code == "model_not_found", error
    else:
        raise AssertionError("expected an error for a model that is not there")
    vectors = triton_http.InferenceServerClient(HTTP).infer("words", texts(triton_http)).as_numpy("embedding")
    np.testing.assert_allclose(vectors, single, atol=1e-6)
    same(vectors, triton_grpc.InferenceServerClient(GRPC).infer("words", texts(triton_grpc)).as_numpy("embedding"))


expected = triton_over_http()
triton_over_grpc(expected)
asyncio.run(triton_asynchronous(expected))
embeddings()
print("ok")
