"""What each network is, where it comes from, what it trains on here, and what the paper could gain on it."""

from dataclasses import dataclass

__all__ = ["CATALOGUE", "ModelInfo"]


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    """One network of the evaluation.

    Parameters
    ----------
    name : str
        As `load` takes it.
    title : str
        What it is, in a line.
    source : str
        Where its shape was published.
    data : str
        What it trains on here, real or made.
    paper_speedup : str
        Its potential speedup as TensorDash's authors report it (Fig. 1): all multiplications over those without zeros.
    """

    name: str
    title: str
    source: str
    data: str
    paper_speedup: str


_DIGITS = (
    "real digits (MNIST if fetched, else scikit-learn's), scaled up, in random colours with noise; the paper: ImageNet"
)
_TEXT = "real English prose (Moby-Dick if fetched, else Python's reference manual)"

CATALOGUE = {
    info.name: info
    for info in (
        ModelInfo(
            name="squeezenet",
            title="SqueezeNet 1.0, image classification",
            source="Iandola et al. 2016, arXiv:1602.07360",
            data=_DIGITS,
            paper_speedup="above 2.4",
        ),
        ModelInfo(
            name="vgg16",
            title="VGG16 (configuration D), image classification",
            source="Simonyan and Zisserman 2014, arXiv:1409.1556",
            data=_DIGITS,
            paper_speedup="not given in the text",
        ),
        ModelInfo(
            name="resnet50",
            title="ResNet-50, image classification",
            source="He et al. 2015, arXiv:1512.03385; stride in the 3x3 convolutions",
            data=_DIGITS,
            paper_speedup="not given in the text",
        ),
        ModelInfo(
            name="resnet50-sparse",
            title="ResNet-50 pruned while it trains, 90% of its weights zero",
            source="Dettmers and Zettlemoyer 2019, arXiv:1907.04840 (method=sparse-momentum); Mostafa and Wang 2019, "
            "arXiv:1902.05967 (method=dynamic-reparameterization)",
            data=_DIGITS,
            paper_speedup="1.75; the speedup settles near 1.5 over training",
        ),
        ModelInfo(
            name="img2txt",
            title="Show and Tell, image captions: CNN encoder, LSTM decoder",
            source="Vinyals et al. 2014, arXiv:1411.4555; ResNet-152, 256-d embedding, LSTM of 512 as in the "
            "PyTorch implementation in wide use",
            data="made scenes of coloured shapes with made captions; the paper: COCO",
            paper_speedup="not given in the text",
        ),
        ModelInfo(
            name="snli",
            title="Natural-language inference: projections, LSTM encoders, four fully connected layers",
            source="Bowman et al. 2015, arXiv:1508.05326; shapes of PyTorch's SNLI example with 300-d embeddings",
            data="made sentence pairs with lengths as in SNLI; the paper: SNLI",
            paper_speedup="5.6",
        ),
        ModelInfo(
            name="bert",
            title="BERT (MiniLM, 6 layers), fine-tuned as a classifier",
            source="Devlin et al. 2018, arXiv:1810.04805; Wang et al. 2020, arXiv:2002.10957 (MiniLM)",
            data="real rated sentences and pretrained weights if fetched (sentences, minilm), else made sentences and "
            "random weights; the paper: GLUE",
            paper_speedup="2.0",
        ),
        ModelInfo(
            name="detectron2",
            title="Mask R-CNN with ResNet-50 and FPN: RPN, box head, mask head",
            source="Detectron2 (Wu et al. 2019); He et al. 2017, arXiv:1703.06870; Lin et al. 2016, arXiv:1612.03144",
            data="made scenes of coloured shapes with boxes and masks; the paper: COCO",
            paper_speedup="2.2",
        ),
        ModelInfo(
            name="ncf",
            title="Neural collaborative filtering (NeuMF)",
            source="He et al. 2017, arXiv:1708.05031; layers of MLPerf's training benchmark",
            data="MovieLens-100k if fetched (movielens), else as many made interactions; the paper: MovieLens-20M",
            paper_speedup="1.7",
        ),
        ModelInfo(
            name="gcn",
            title="Gated convolutional network (GCNN-14), language model",
            source="Dauphin et al. 2016, arXiv:1612.08083",
            data=_TEXT + ", by word; the paper: WikiText-2",
            paper_speedup="speed +1%",
        ),
        ModelInfo(
            name="gpt",
            title="GPT with static unstructured weight sparsity, 13B shapes for simulation",
            source="Srinivasan et al. 2023, arXiv:2304.05511 (13B, sparse); Brown et al. 2020, arXiv:2005.14165",
            data=_TEXT + ", by byte",
            paper_speedup="not in TensorDash's paper",
        ),
    )
}
"""Every network, by name."""
