"""One thread for each test worker: the tests are many and small."""

import torch

torch.set_num_threads(1)
