# The command line and the page, with a torch without CUDA:
#   docker build --tag workings .
#   docker run --rm workings solve L2-self
FROM python:3.11-slim
RUN apt-get update \
 && apt-get install --yes --no-install-recommends make \
 && rm -rf /var/lib/apt/lists/*

# constraints.txt pins torch; of that version, torch's own index has a build without CUDA.
ENV PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu \
    PIP_NO_CACHE_DIR=1
WORKDIR /opt/workings
COPY . .
RUN make .venv/.all
ENV PATH=/opt/workings/.venv/bin:$PATH

RUN useradd --create-home user
USER user
WORKDIR /home/user
EXPOSE 8642
ENTRYPOINT ["workings"]
CMD ["--help"]
