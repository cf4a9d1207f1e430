"""Inputs that look for a crash, a hang or an absurd allocation: each ends in a result or an error of its class.

All run in another process, with 8 GB of address space and a time limit.
"""

from __future__ import annotations

import pytest

from isolated import outcomes

PREAMBLE = """
ONE = [1, 1, 1, 1]
def ones(*shape): return np.ones(shape, np.float32)
def huge(*shape): return np.broadcast_to(np.float32(1), shape)   # no memory of its own
def indices(count): return np.broadcast_to(np.int32(0), (count,))
def conv(image, filter, strides=ONE, padding="SAME", **attrs):
    return gradops.conv2d(image, filter, strides, padding, **attrs)
def backprop(sizes, filter, grad, strides=ONE, padding="SAME", **attrs):
    return gradops.conv2d_backprop_input(sizes, filter, grad, strides, padding, **attrs)
def explicit(top, bottom, left, right):
    return dict(padding="EXPLICIT", explicit_paddings=[0, 0, top, bottom, left, right, 0, 0])
def crop(image, boxes, box_ind, size):
    return gradops.crop_and_resize(image, boxes, box_ind, size)
def grad_image(size, boxes=((0, 0, 1, 1),), grads=None, box_ind=None, T="float32"):
    boxes = np.asarray(boxes, np.float32)
    grads = ones(len(boxes), 2, 2, 1) if grads is None else grads
    box_ind = np.zeros(len(boxes), np.int32) if box_ind is None else box_ind
    return gradops.crop_and_resize_grad_image(grads, boxes, box_ind, size, T)
BIG = 2**31 - 1
STEP = [1, BIG, BIG, 1]
NO_IND = np.zeros(0, np.int32)
NO_BOXES = np.zeros((0, 4)), ones(0, 2, 2, 1)
result = """

INVALID, MEMORY, RANGE = "InvalidArgumentError: ", "ResourceExhaustedError: ", "OutOfRangeError: "

# what -> (expression, how it ends: the start of the error, or of the result's description)
CASES: dict[str, tuple[str, str]] = {
    # --- sizes near 2**31, and products beyond 64 bits ---
    "an input of 2**31 - 1 everywhere": ("backprop([BIG] * 4, ones(1, 1, 1, 1), ones(1, 1, 1, 1))", INVALID),
    "an input height of 2**31 - 1, valid": (
        "backprop([1, BIG, 1, 1], ones(1, 1, 1, 1), ones(1, 1, 1, 1), [1, BIG, 1, 1])",
        MEMORY,
    ),
    "a gradient of 4 TB": (
        "backprop([1, 2**20, 2**20, 1], ones(1, 1, 1, 1), ones(1, 1, 1, 1), [1, 2**20, 2**20, 1])",
        MEMORY,
    ),
    "an output of 4 TB": (
        "conv(ones(1, 1, 1, 1), ones(1, 1, 1, 1), ONE, **explicit(2**19, 2**19, 2**19, 2**19))",
        MEMORY,
    ),
    "an output whose bytes overflow 64 bits": (
        "conv(ones(1, 1, 1, 1), ones(1, 1, 1, 1), ONE, **explicit(2**30, 2**30, 2**30, 2**30))",
        MEMORY,
    ),
    "an output whose elements overflow 63 bits": (
        "conv(ones(1, 1, 1, 1), ones(1, 1, 1, 1), ONE, **explicit(BIG, BIG, BIG, BIG))",
        INVALID,
    ),
    "strides as long as the image": (
        "backprop([1, 10**7, 1, 1], ones(1, 1, 1, 1), ones(1, 1, 1, 1), [1, 10**7, 1, 1], 'VALID')",
        "",
    ),
    "crops of 2**31 - 1 squared": ("crop(ones(1, 1, 1, 1), ones(1, 4), [0], [BIG, BIG])", MEMORY),
    "crops whose elements overflow 64 bits": ("crop(ones(1, 1, 1, 3), ones(1, 4), [0], [BIG, BIG])", INVALID),
    "no crops of 2**31 - 1 squared, a shape NumPy does not have": (
        "crop(ones(1, 1, 1, 3), ones(0, 4), NO_IND, [BIG, BIG])",
        INVALID,
    ),
    "an image of 4 TB": ("grad_image([1, 2**20, 2**20, 1])", MEMORY),
    "an image of 4 TB and no boxes": ("grad_image([1, 2**20, 2**20, 1], *NO_BOXES)", MEMORY),
    "an image whose elements overflow 64 bits": ("grad_image([BIG, BIG, BIG, 1])", INVALID),
    "no images of 2**31 - 1 squared, a shape NumPy does not have": ("grad_image([0, BIG, BIG, 1], *NO_BOXES)", INVALID),
    "an image with a bad index is not allocated for long": ("grad_image([1, 2**20, 2**20, 1], box_ind=[7])", MEMORY),
    # --- arrays of astronomical shape and no memory ---
    "a filter of 2**60 taps": ("conv(ones(1, 4, 4, 1), huge(2**30, 2**30, 1, 1))", MEMORY),
    "an image of 2**60 pixels": ("conv(huge(1, 2**30, 2**30, 1), ones(1, 1, 1, 1))", MEMORY),
    "an image dimension beyond 32 bits": ("conv(huge(1, 2**32, 1, 1), ones(1, 1, 1, 1))", INVALID),
    "a filter dimension beyond 32 bits": ("conv(ones(1, 4, 4, 1), huge(2**32, 1, 1, 1))", INVALID),
    "a huge image seen through one window": (
        "conv(huge(1, 2**30, 2**30, 1), ones(1, 1, 1, 1), [1, 2**30, 2**30, 1], 'SAME')",
        MEMORY,
    ),
    "an out_backprop of 2**60 pixels": (
        "backprop([1, 2**30, 2**30, 1], ones(1, 1, 1, 1), huge(1, 2**30, 2**30, 1))",
        MEMORY,
    ),
    "an out_backprop of 2**40 pixels on one": (
        "backprop([1, 1, 1, 1], ones(1, 1, 1, 1), huge(1, 2**20, 2**20 + 1, 1), **explicit(2**20 - 1, 0, 2**20, 0))",
        MEMORY,
    ),
    "2**40 boxes": ("crop(ones(1, 2, 2, 1), huge(2**40, 4), indices(2**40), [1, 1])", MEMORY),
    "an image of 2**60 pixels to crop": ("crop(huge(1, 2**30, 2**30, 1), ones(1, 4), [0], [1, 1])", MEMORY),
    "grads of 2**40 crops": (
        "grad_image([1, 2, 2, 1], huge(2**40, 4), huge(2**40, 1, 1, 1), indices(2**40))",
        MEMORY,
    ),
    "a long vector of sizes": ("backprop(indices(2**40), ones(1, 1, 1, 1), ones(1, 1, 1, 1))", INVALID),
    # --- strides, dilations and paddings of 2**31 - 1 ---
    "strides of 2**31 - 1": (
        "backprop([1, 5, 6, 1], ones(3, 3, 1, 1), ones(1, 1, 1, 1), [1, BIG, BIG, 1])",
        "float32 [1, 5, 6, 1] sum 9.0",
    ),
    "strides of 2**31 - 1, forward": (
        "conv(ones(1, 5, 6, 1), ones(3, 3, 1, 1), [1, BIG, BIG, 1], 'VALID')",
        "float32 [1, 1, 1, 1] sum 9.0",
    ),
    "strides of -2**31": ("backprop([1, 5, 6, 1], ones(3, 3, 1, 1), ones(1, 1, 1, 1), [1, -2**31, 1, 1])", INVALID),
    "dilations of 2**31 - 1": (
        "backprop([1, 5, 6, 1], ones(3, 3, 1, 1), ones(1, 5, 6, 1), dilations=[1, BIG, BIG, 1])",
        "float32 [1, 5, 6, 1] sum 30.0",
    ),
    "dilations of 2**31 - 1, forward": (
        "conv(ones(1, 5, 6, 1), ones(3, 3, 1, 1), dilations=[1, BIG, BIG, 1])",
        "float32 [1, 5, 6, 1] sum 30.0",
    ),
    "dilations and strides of 2**31 - 1": (
        "conv(ones(1, 5, 6, 1), ones(3, 3, 1, 1), [1, BIG, BIG, 1], 'SAME', dilations=[1, BIG, BIG, 1])",
        "float32 [1, 1, 1, 1] sum ",
    ),
    "dilations of 2**31 - 1, valid": (
        "conv(ones(1, 5, 6, 1), ones(3, 3, 1, 1), ONE, 'VALID', dilations=[1, BIG, BIG, 1])",
        INVALID,
    ),
    "paddings and strides of 2**31 - 1": (
        "conv(ones(1, 1, 1, 1), ones(1, 1, 1, 1), [1, BIG, BIG, 1], **explicit(BIG, BIG, BIG, BIG))",
        "float32 [1, 3, 3, 1] sum 1.0",
    ),
    "their gradient": (
        "backprop([1, 1, 1, 1], ones(1, 1, 1, 1), ones(1, 3, 3, 1), [1, BIG, BIG, 1], **explicit(BIG, BIG, BIG, BIG))",
        "float32 [1, 1, 1, 1] sum 1.0",
    ),
    "paddings, dilations and strides of 2**31 - 1": (
        "conv(ones(1, 1, 1, 1), ones(3, 3, 1, 1), STEP, dilations=STEP, **explicit(BIG, BIG, BIG, BIG))",
        "float32 [1, 1, 1, 1] sum 1.0",
    ),
    "a padding beyond 32 bits": ("conv(ones(1, 1, 1, 1), ones(1, 1, 1, 1), ONE, **explicit(0, 2**31, 0, 0))", INVALID),
    "a padding of 2**63 - 1": (
        "backprop([1, 1, 1, 1], ones(1, 1, 1, 1), ones(1, 1, 1, 1), **explicit(2**63 - 1, 2**63 - 1, 0, 0))",
        INVALID,
    ),
    # --- zero dimensions ---
    "every size 0": ("backprop([0, 0, 0, 0], ones(0, 0, 0, 0), ones(0, 0, 0, 0))", INVALID),
    "no input channels for a filter of one": ("backprop([1, 2, 2, 0], ones(1, 1, 1, 1), ones(1, 2, 2, 1))", INVALID),
    "a filter of no taps": (
        "backprop([2, 2, 2, 1], ones(0, 0, 1, 1), ones(2, 2, 2, 1))",
        "float32 [2, 2, 2, 1] sum 0.0",
    ),
    "no pixels, but padding": (
        "conv(ones(1, 0, 0, 1), ones(1, 1, 1, 1), ONE, **explicit(1, 1, 1, 1))",
        "float32 [1, 2, 2, 1] sum 0.0",
    ),
    "an image without pixels to crop": ("crop(ones(1, 0, 0, 1), ones(0, 4), NO_IND, [1, 1])", INVALID),
    "a batch of 0 with a box": ("grad_image([0, 2, 2, 1])", RANGE),
    "an image without channels and a bad index": (
        "grad_image([1, 2, 2, 0], grads=ones(1, 2, 2, 0), box_ind=[1])",
        RANGE,
    ),
    # --- wrong ranks ---
    "a scalar for everything": ("backprop(np.int32(1), np.float32(1), np.float32(1))", INVALID),
    "tensors of rank 30": ("conv(huge(*[1] * 30), huge(*[1] * 30))", INVALID),
    "two sizes and a filter of rank 1": ("backprop([1, 1], ones(1), ones(1, 1, 1, 1))", INVALID),
    "empty boxes of rank 1": ("grad_image([1, 2, 2, 1], np.zeros(0), ones(0, 2, 2, 1), NO_IND)", INVALID),
    "empty indices of rank 2": ("grad_image([1, 2, 2, 1], *NO_BOXES, np.zeros((0, 3), np.int32))", INVALID),
    "empty boxes of rank 1 to crop": ("crop(ones(1, 2, 2, 1), ones(0), NO_IND, [1, 1])", INVALID),
    # --- boxes ---
    "a box of NaN": ("grad_image([1, 3, 3, 1], [[0, 0, float('nan'), 1]])", INVALID),
    "an infinite box": ("grad_image([1, 3, 3, 1], [[0, 0, float('inf'), 1]])", INVALID),
    "an infinite box to crop": ("crop(ones(1, 3, 3, 1), [[0, 0, float('inf'), 1]], [0], [1, 1])", INVALID),
    "boxes of 3e38": (
        "grad_image([1, 3, 3, 1], [[3e38, 0, -3e38, 1], [-3e38, -3e38, 3e38, 3e38]])",
        "float32 [1, 3, 3, 1] sum 0.0",
    ),
    "boxes of 1e30": ("grad_image([1, 3, 3, 1], [[-1e30, 0, 1e30, 1]])", "float32 [1, 3, 3, 1] sum 0.0"),
    "an index of -2**31": ("grad_image([1, 3, 3, 1], box_ind=[-2**31])", RANGE),
    "an index of 2**31 - 1": ("crop(ones(1, 3, 3, 1), ones(1, 4), [BIG], [1, 1])", RANGE),
    "a row beyond 2**24, which float32 rounds past the end": (
        "grad_image([1, 16777220, 1, 1], [[1, 0, 1, 0]], ones(1, 1, 1, 1), T='half')",
        "float16 [1, 16777220, 1, 1] sum 0.0",
    ),
    # --- many samples on little memory ---
    "a crop of a million rows on one pixel": (
        "grad_image([1, 1, 1, 1], [[0, 0, 0, 0]], ones(1, 2**20, 1, 1), T='float64')",
        "float64 [1, 1, 1, 1] sum 1048576.0",
    ),
    "a million boxes on one pixel": (
        "grad_image([1, 1, 1, 1], np.zeros((2**20, 4)), ones(2**20, 1, 1, 1), T='half')",
        "float16 [1, 1, 1, 1] sum inf",
    ),
}


@pytest.fixture(scope="module")
def ended() -> dict[str, str]:
    return outcomes({what: PREAMBLE + code for what, (code, _) in CASES.items()})


@pytest.mark.parametrize("what", CASES)
def test_a_hostile_call_ends_in_a_result_or_an_error(what: str, ended: dict[str, str]) -> None:
    assert ended[what].startswith(CASES[what][1]), ended[what]


def test_a_crash_and_a_hang_would_be_seen() -> None:
    """The tests above rest on this."""
    snippets = {
        "crash": "import os; os.kill(os.getpid(), 11)",
        "hang": "import time; time.sleep(60)",
        "memory": "outcome = len(np.ones(10**10, np.float32))",
        "result": "result = np.ones((2, 3), np.float32)",
    }
    ended = outcomes({name: snippets[name] for name in ("crash", "memory", "result")})
    assert ended["crash"] == "killed by SIGSEGV"
    assert "MemoryError: Unable to allocate" in ended["memory"]
    assert ended["result"] == "float32 [2, 3] sum 6.0"
    assert outcomes({"hang": snippets["hang"]}, timeout=2) == {"hang": "no answer in 2 s"}
